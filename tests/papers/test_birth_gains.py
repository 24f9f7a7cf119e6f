"""Weights really are born with the gains: at one seed, a design's weights are Post-LN's times the gain of the role."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from addnorm.arrangements import B2T, Arrangement, ByLayer, Fixup, PostLN, Rescaled, TFixup
from addnorm.init import Fairseq, XavierUniform
from addnorm.layers.embeddings import LinearHead
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from addnorm.models import EncoderSpec
from addnorm.models.build import build
from addnorm.spec import SpecError
from tests.papers.stacks import DEPTH, OTHER_DEPTH, SHAPES, make_model

SCALED = ("value", "output", "up", "down")  # what DeepNorm and T-Fixup make smaller; query and key stay as they are
N, M = DEPTH, OTHER_DEPTH
TWO_STACKS = "encoder beside a decoder"  # the encoder N deep, the decoder M


def role_of(name: str) -> str:
    """blocks.0.sublayers.self_attention.query.weight -> query; embedding.weight -> embedding."""
    parent, last = name.split(".")[-2:]
    return parent if last == "weight" else last


def born(design: str | Arrangement, shape: str = TWO_STACKS, **choices) -> dict[str, torch.Tensor]:
    """The weights that are not the design's own."""
    model = make_model(design, shape, torch.float32, **choices)
    return {
        name: weight for name, weight in model.state_dict().items() if "connections" not in name and "close" not in name
    }


def assert_born(
    design: str | Arrangement, gain: Callable[[str, str], float], shape: str = TWO_STACKS, **choices
) -> None:
    """gain(parameter's name, role) of every weight; exactly, since both models draw the same numbers."""
    ours, plain = born(design, shape, **choices), born(PostLN(), shape, **choices)
    assert ours.keys() == plain.keys()
    for name, weight in ours.items():
        expected = plain[name] * gain(name, role_of(name))
        assert torch.equal(weight, expected), f"{name}: wanted Post-LN's times {gain(name, role_of(name)):.4f}"


def test_deep_norm() -> None:
    """Query, key, embedding and biases stay as they are; one public library scales the biases too."""

    def gain(name: str, role: str) -> float:
        beta = 0.87 * (N**4 * M) ** (-1 / 16) if name.startswith("encoder.") else (12 * M) ** -0.25
        return beta if role in SCALED else 1.0

    assert_born("deep_norm", gain)


@pytest.mark.parametrize("shape", ["encoder", "decoder"])
def test_deep_norm_of_a_single_stack(shape: str) -> None:
    assert_born("deep_norm", lambda name, role: (8 * N) ** -0.25 if role in SCALED else 1.0, shape)


def test_t_fixup() -> None:
    def gain(name: str, role: str) -> float:
        if name == "source_embedding.weight":
            return (9 * N) ** -0.25
        if name == "embedding.weight":
            return (9 * M) ** -0.25
        weights = 0.67 * N**-0.25 if name.startswith("encoder.") else (9 * M) ** -0.25
        return weights if role in SCALED else 1.0

    assert_born("t_fixup", gain)


def test_t_fixup_wants_its_values_from_plain_xavier() -> None:
    """fairseq draws query, key and value smaller by sqrt(2), which T-Fixup's authors undo: here it is refused."""
    for design in (TFixup(), Rescaled(inner=TFixup()), ByLayer(first=TFixup(), rest=TFixup())):
        with pytest.raises(SpecError, match=r"init=fairseq was asked for, but design .* by sqrt\(2\); use xavier"):
            EncoderSpec(arrangement=design, init=Fairseq())
        assert EncoderSpec(arrangement=design, init=XavierUniform()).base == XavierUniform()


def test_fixup() -> None:
    branches = 2 * N + 3 * M

    def gain(name: str, role: str) -> float:
        powers = {"query": -1 / 6, "key": -1 / 6, "value": -1 / 6, "up": -1 / 2}
        if role in ("output", "down") or name == "head.linear.weight":
            return 0.0
        return branches ** powers[role] if role in powers else 1.0

    contents = {"attention": FixupAttention(), "feed_forward": FixupFeedForward(), "head": LinearHead()}
    assert_born(Fixup(), gain, **contents)


def test_the_fixup_bundle_has_no_bias_but_its_scalars() -> None:
    model = build("fixup", depth=2, width=8, heads=2, vocab=11)
    biases = [weight for name, weight in model.named_parameters() if name.endswith("bias")]
    assert biases
    assert all(bias.numel() == 1 and not bias.any() for bias in biases)
    scales = [weight for name, weight in model.named_parameters() if "connections" in name]
    assert len(scales) == 2 * 2 + 3 * 2
    assert all(scale.numel() == 1 and scale.item() == 1.0 for scale in scales)


@pytest.mark.parametrize("shape", SHAPES)
def test_b2t_is_born_as_post_ln_when_asked(shape: str) -> None:
    assert_born(B2T(depth_power=0.0), lambda name, role: 1.0, shape)


def test_b2t_has_the_birth_of_its_repository() -> None:
    """Every matrix of a layer times N^(-1/2), N the depth of its own stack; norms, biases and embeddings not."""

    def gain(name: str, role: str) -> float:
        depth = N if name.startswith("encoder.") else M
        return depth**-0.5 if role in (*SCALED, "query", "key") else 1.0

    assert_born("b2t", gain)


@pytest.mark.parametrize(
    "design", ["pre_ln", "res_post", "sandwich", "rezero", "admin", "dlcl", "dlcl_post", "resi_dual"]
)
def test_other_designs_leave_the_birth_alone(design: str) -> None:
    assert_born(design, lambda name, role: 1.0)


def test_hyper_connections_leave_the_output_projections_alone() -> None:
    """The paper's sqrt(n) on output modules cannot be derived, and is off."""
    assert_born("hyper_connections", lambda name, role: 1.0)


def test_gpt2_makes_what_writes_into_the_stream_smaller() -> None:
    """N(0, 0.02) everywhere, over sqrt(2 N) where a branch ends."""
    gpt2 = build("gpt2", depth=8, width=64, heads=2, vocab=11)
    for name, weight in gpt2.state_dict().items():
        if weight.numel() >= 4096:
            wanted = 0.02 / 16**0.5 if role_of(name) in ("output", "down") else 0.02
            assert weight.std().item() == pytest.approx(wanted, rel=0.05), name
