"""Births by their standard deviations, measured on matrices large enough for two digits, and by their shapes."""

from __future__ import annotations

import math

import pytest
import torch

from addnorm.init import Fairseq, Kaiming, Normal, SmallInit, T5Init, XavierNormal, XavierUniform
from addnorm.layers.attention import Attention
from addnorm.layers.embeddings import LinearHead
from addnorm.models.build import build

D, HIDDEN, HEADS, VOCAB = 192, 512, 4, 400
ATTENTION = ("query", "key", "value", "output")


def xavier(fan_in: int, fan_out: int) -> float:
    return math.sqrt(2 / (fan_in + fan_out))


FANS = dict.fromkeys(ATTENTION, (D, D)) | {"up": (D, HIDDEN), "down": (HIDDEN, D), "head": (D, VOCAB)}
XAVIER = {role: xavier(*fans) for role, fans in FANS.items()}

BASES = {
    "xavier_uniform": (XavierUniform(), "uniform", XAVIER, D**-0.5),
    "xavier_normal": (XavierNormal(), "normal", XAVIER, D**-0.5),
    # fairseq: query, key and value drawn with gain 1 / sqrt(2).
    "fairseq": (
        Fairseq(),
        "uniform",
        XAVIER | dict.fromkeys(("query", "key", "value"), xavier(D, D) / math.sqrt(2)),
        D**-0.5,
    ),
    "normal": (Normal(std=0.02), "normal", dict.fromkeys(FANS, 0.02), 0.02),
    # Nguyen & Salazar: all four of attention sqrt(2 / 5d), the feed-forward Xavier.
    "small_init": (SmallInit(), "normal", XAVIER | dict.fromkeys(ATTENTION, math.sqrt(2 / (5 * D))), D**-0.5),
    # nn.Linear's own: U(-1/sqrt(in), 1/sqrt(in)), and He's with slope 0: sqrt(2 / in).
    "kaiming": (
        Kaiming(),
        "uniform",
        {role: 1 / math.sqrt(3 * fan) for role, (fan, _) in FANS.items()},
        1 / math.sqrt(3 * D),
    ),
    "kaiming_relu": (
        Kaiming(slope=0.0),
        "uniform",
        {role: math.sqrt(2 / fan) for role, (fan, _) in FANS.items()},
        1 / math.sqrt(3 * D),
    ),
    # Mesh TensorFlow: query (d d_kv)^(-1/2), key, value and up d^(-1/2), output (h d_kv)^(-1/2), down d_ff^(-1/2).
    "t5_init": (
        T5Init(),
        "normal",
        {role: fan**-0.5 for role, (fan, _) in FANS.items()} | {"query": (D * (D // HEADS)) ** -0.5},
        1.0,
    ),
}


def model_of(base):
    sizes = {"depth": 1, "width": D, "heads": HEADS, "vocab": VOCAB, "hidden": HIDDEN}
    return build("pre_ln", init=base, head=LinearHead(), **sizes)


@pytest.mark.parametrize(("base", "shape", "stds", "embedding"), BASES.values(), ids=BASES)
def test_standard_deviations_and_shapes(base, shape: str, stds: dict[str, float], embedding: float) -> None:
    model = model_of(base)
    found = {name.split(".")[-2]: weight for name, weight in model.named_parameters() if weight.ndim == 2}
    found["head"] = found.pop("linear")
    assert found.keys() == {*stds, "embedding"}
    for role, weight in found.items():
        wanted = stds.get(role, embedding)
        assert weight.std().item() == pytest.approx(wanted, rel=0.015), role
        assert abs(weight.mean().item()) < 4 * wanted / weight.numel() ** 0.5, role
        if role != "embedding":
            # A uniform reaches sqrt(3) standard deviations and no further; a normal of this many goes beyond 3.5.
            reach = weight.abs().max().item() / wanted
            assert reach <= math.sqrt(3) + 1e-5 if shape == "uniform" else reach > 3.5, role


def test_small_init_is_xavier_for_a_feed_forward_four_times_as_wide() -> None:
    """Where its name comes from: attention as small as the feed-forward is by Xavier at d_ff = 4 d."""
    assert math.sqrt(2 / (5 * D)) == pytest.approx(xavier(D, 4 * D), rel=1e-12)
    model = build("pre_ln", mode="decoder", depth=1, width=D, heads=HEADS, vocab=9, init=SmallInit())
    block = model.stack.blocks[0].sublayers
    attention, up = block["self_attention"].query.weight.std(), block["feed_forward"].up.weight.std()
    assert (attention / up).item() == pytest.approx(1.0, rel=0.02)


def test_the_birth_for_fix_norm() -> None:
    weight = model_of(SmallInit(embedding_bound=0.01)).embedding.weight
    assert weight.abs().max().item() <= 0.01
    assert weight.std().item() == pytest.approx(0.01 / math.sqrt(3), rel=0.015)


def test_grouped_keys_are_drawn_by_their_own_fans() -> None:
    """Two key heads of four: the matrix is half as tall, and Xavier's number follows it."""
    contents = Attention(kv_heads=2)
    model = build("pre_ln", depth=1, width=D, heads=HEADS, vocab=9, attention=contents, init=XavierUniform())
    key = model.stack.blocks[0].sublayers["self_attention"].key.weight
    assert key.shape == (D // 2, D)
    assert key.std().item() == pytest.approx(xavier(D, D // 2), rel=0.015)


def test_every_bias_is_born_zero_and_every_gain_one() -> None:
    model = model_of(Kaiming())
    small = {name: weight for name, weight in model.named_parameters() if weight.ndim == 1}
    assert len(small) == 6 + 6  # four of attention and two of the feed-forward; three norms with two each
    for name, weight in small.items():
        assert torch.equal(weight, torch.zeros_like(weight) if name.endswith("bias") else torch.ones_like(weight)), name
