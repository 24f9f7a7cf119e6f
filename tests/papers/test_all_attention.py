"""All-attention (Sukhbaatar et al. 2019): no feed-forward; persistent pairs in one softmax with the context."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from addnorm.layers.attention import Attention, WrittenOut
from addnorm.models.build import build
from tests.papers.formulas import layer_norm
from tests.papers.softmaxes import attention
from tests.papers.stacks import DTYPES, arguments_of, normal, places, redraw, tokens
from tests.papers.test_positions import bucket
from tests.tolerances import assert_close

WIDTH, HEADS, HEAD, SLOTS = 8, 2, 4, 3
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def own(module, slots: int = SLOTS):
    """A head's own pairs: keys times sqrt(d_h), values times sqrt(number of pairs)."""

    def persistent(head: int) -> tuple[list[Tensor], list[Tensor]]:
        keys, values = module.persistent.key[head], module.persistent.value[head].T
        assert keys.shape == values.shape == (slots, HEAD)
        return [HEAD**0.5 * keys[j] for j in range(slots)], [slots**0.5 * values[j] for j in range(slots)]

    return persistent


@every_dtype
@pytest.mark.parametrize("core", [Attention().core, WrittenOut()], ids=lambda core: core.kind)
def test_the_bundle_is_post_ln_over_attention_alone(core, dtype: torch.dtype) -> None:
    """h <- LN(h + W_O AllAttn(h)); the position's bias is on the context, the persistent pairs have none."""
    contents = Attention(bias=False, persistent=SLOTS, core=core)
    model = build("all_attention", depth=3, width=WIDTH, heads=HEADS, vocab=11, attention=contents, dtype=dtype)
    redraw(model)
    _, context = arguments_of(model, model.stack, (tokens(length=5),))
    assert all(list(block.sublayers) == ["self_attention"] for block in model.stack.blocks)
    table = model.sight.bias.weight
    x = expected = normal((2, 5, WIDTH), seed=8, dtype=dtype)
    for block, ((_, p),) in zip(model.stack.blocks, places(model.stack, context), strict=True):
        module = block.sublayers["self_attention"]
        y = attention(
            module,
            expected,
            lambda b, t, s: s <= t,
            HEADS,
            bias=lambda head, t, s: table[bucket(s - t, 32, 128, two_way=False), head],
            persistent=own(module),
        )
        expected = layer_norm(expected + y, p["after.weight"], p["after.bias"])
    assert_close(model.stack(x, context), expected)


@every_dtype
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
def test_persistent_pairs_beside_padding(mode: str, dtype: torch.dtype) -> None:
    """Padding hides tokens, never the persistent pairs: a row of nothing but padding still sees those."""
    real = torch.tensor([[True, True, True, False, False], [False] * 5])
    contents = Attention(persistent=SLOTS)
    model = build("post_ln", mode=mode, depth=1, width=WIDTH, heads=HEADS, vocab=11, attention=contents, dtype=dtype)
    redraw(model)
    _, context = arguments_of(model, model.stack, (tokens(length=5), real))
    module = model.stack.blocks[0].sublayers["self_attention"]
    h = normal((2, 5, WIDTH), seed=8, dtype=dtype)

    def sees(b: int, t: int, s: int) -> bool:
        return bool(real[b, s]) and (mode == "encoder" or s <= t)

    y, expected = module(h, context), attention(module, h, sees, HEADS, persistent=own(module))
    assert_close(y[0, :3], expected[0, :3])
    assert_close(y[1], expected[1])


@every_dtype
def test_persistent_pairs_of_grouped_heads(dtype: torch.dtype) -> None:
    """Each key-value head has its own, and the query heads of its group share them."""
    contents = Attention(persistent=SLOTS, kv_heads=1)
    model = build(
        "post_ln", mode="decoder", depth=1, width=WIDTH, heads=HEADS, vocab=11, attention=contents, dtype=dtype
    )
    redraw(model)
    _, context = arguments_of(model, model.stack, (tokens(length=5),))
    module = model.stack.blocks[0].sublayers["self_attention"]
    h = normal((2, 5, WIDTH), seed=8, dtype=dtype)
    expected = attention(module, h, lambda b, t, s: s <= t, HEADS, kv_heads=1, persistent=own(module))
    assert_close(module(h, context), expected)


def test_persistent_pairs_are_used_with_unit_variance() -> None:
    """Keys born N(0, 1/d_h), values N(0, 1/N_p), each used times the root: unit variance whatever their number."""
    model = build("all_attention", depth=1, width=128, heads=2, vocab=11)
    pairs = model.stack.blocks[0].sublayers["self_attention"].persistent
    assert pairs.key.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert pairs.value.std().item() == pytest.approx(1024**-0.5, rel=0.02)
