"""What a design promises of the moment of birth, measured on models as they are born."""

from __future__ import annotations

import pytest
import torch

from addnorm.arrangements import B2T, Admin, Arrangement, DeepNorm, Fixup, NoSkip, PostLN, ScaledPost
from addnorm.layers.embeddings import LinearHead
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from addnorm.layers.norms import LayerNorm
from tests.papers.stacks import SHAPES, WIDTH, arguments_of, batch_of, make_model, normal, stack_of

FIXUP = {"attention": FixupAttention(), "feed_forward": FixupFeedForward(), "head": LinearHead()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("design", "contents"), [("rezero", {}), (Fixup(), FIXUP)], ids=["rezero", "fixup"])
def test_the_stack_is_born_as_the_identity(shape: str, design: str | Arrangement, contents: dict) -> None:
    """Exactly, not nearly; so the gradient reaches the embedding untouched as well."""
    model = make_model(design, shape, **contents)
    stack = stack_of(model, shape)
    x, context = arguments_of(model, stack, batch_of(shape))
    assert torch.equal(stack(x, context), x)
    probe = normal(x.shape, 5)
    (gradient,) = torch.autograd.grad((stack(x.requires_grad_(), context) * probe).sum(), x)
    assert torch.equal(gradient, probe)


def test_a_rezero_model_is_born_as_embedding_and_head() -> None:
    model = make_model("rezero", "decoder")
    (tokens,) = batch_of("decoder")
    positions = torch.arange(tokens.shape[1])[None]
    assert torch.equal(model(tokens), model.embedding(tokens, positions) @ model.embedding.weight.T)


def test_a_fixup_model_is_born_silent() -> None:
    """Its head is born zero: every token is equally likely."""
    model = make_model(Fixup(), "decoder", **FIXUP)
    assert not model(*batch_of("decoder")).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("design", ["dlcl", "dlcl_post"])
def test_dlcl_is_born_averaging(shape: str, design: str) -> None:
    """Row l of the lower triangle is 1 / (l + 1), so that each row sums to one."""
    stack = stack_of(make_model(design, shape), shape)
    rows = [weight for name, weight in stack.named_parameters() if name.endswith(("recall.weight", "close.weight"))]
    assert [len(row) for row in rows] == [1, 2, 3, 4]
    for row in rows:
        torch.testing.assert_close(row, torch.full_like(row, 1 / len(row)), rtol=1e-7, atol=0.0)
        assert row.sum().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_concat_is_born_adding(shape: str) -> None:
    """W = [I I]."""
    stack = stack_of(make_model("concat", shape), shape)
    joins = [weight for name, weight in stack.named_parameters() if name.endswith("join.weight")]
    assert joins
    assert all(torch.equal(join.float(), torch.eye(WIDTH).repeat(1, 2)) for join in joins)


@pytest.mark.parametrize("shape", SHAPES)
def test_gates_are_born_nearly_shut(shape: str) -> None:
    """b_g = -2: an eighth of the branch, seven eighths of the stream."""
    stack = stack_of(make_model("gated", shape), shape)
    biases = [weight for name, weight in stack.named_parameters() if name.endswith("gate.bias")]
    assert biases
    assert all(torch.equal(bias, torch.full_like(bias, -2.0)) for bias in biases)


@pytest.mark.parametrize("shape", SHAPES)
def test_hyper_connections_are_born_static(shape: str) -> None:
    """B = 1, A_r = I, A_m = e_{k mod n} by the number k of the sub-layer, nothing by input, s = 0.01."""
    stack = stack_of(make_model("hyper_connections", shape), shape)
    connections = [connection for block in stack.blocks for connection in block.connections.values()]
    for number, connection in enumerate(connections):
        born = {name: value for name, value in connection.mixing.named_parameters() if "norm" not in name}
        one_hot = torch.zeros(4)
        one_hot[number % 4] = 1.0
        assert torch.equal(born["take"].float(), one_hot)
        assert torch.equal(born["keep"].float(), torch.eye(4))
        assert torch.equal(born["give"].float(), torch.ones(4))
        assert not any(value.any() for name, value in born.items() if name.endswith("by_input"))
        assert born["scale_mix"].item() == born["scale_give"].item() == pytest.approx(0.01)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("design", [PostLN, NoSkip, DeepNorm, ScaledPost, Admin, B2T])
def test_add_and_norm_leaves_mean_zero_and_squares_that_sum_to_the_width(shape: str, design: type[Arrangement]) -> None:
    """y'y = d at gain 1: its length is sqrt(d), its square is not."""
    model = make_model(design(norm=LayerNorm(eps=1e-12)), shape)
    stack = stack_of(model, shape)
    y = stack(*arguments_of(model, stack, batch_of(shape)))
    assert y.mean(dim=-1).abs().max() < 1e-12
    torch.testing.assert_close(
        y.square().sum(dim=-1), torch.full(y.shape[:2], float(WIDTH)).double(), rtol=1e-6, atol=0.0
    )
