"""Attention's variants against a softmax written out: QK-norm, grouped heads, soft cap, scales, biases, rotation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from addnorm.layers.attention import Attention, WrittenOut
from addnorm.layers.norms import LayerNorm, RMSNorm
from addnorm.layers.positions import ALiBi, Relative, Rotary
from addnorm.models.build import build
from tests.papers.formulas import layer_norm, rms_norm
from tests.papers.softmaxes import attention, project
from tests.papers.stacks import DTYPES, arguments_of, normal, redraw, tokens
from tests.papers.test_positions import bucket, turned
from tests.tolerances import assert_close

WIDTH, HEADS, HEAD = 16, 4, 4
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def made(dtype: torch.dtype, attention: Attention, mode: str = "decoder", **choices):
    """A model of one block, its attention, the context it makes, and an input."""
    model = build(
        "no_norm", mode=mode, depth=1, width=WIDTH, heads=HEADS, vocab=11, attention=attention, dtype=dtype, **choices
    )
    redraw(model)
    _, context = arguments_of(model, model.stack, (tokens(length=5),))
    return model, model.stack.blocks[0].sublayers["self_attention"], context, normal((2, 5, WIDTH), seed=8, dtype=dtype)


def causal(b: int, t: int, s: int) -> bool:
    return s <= t


@every_dtype
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads_share_keys_and_values_in_runs(kv_heads: int, dtype: torch.dtype) -> None:
    """Heads 0 and 1 read the first key-value head, 2 and 3 the second."""
    for core in (Attention().core, WrittenOut()):
        _, module, context, h = made(dtype, Attention(kv_heads=kv_heads, core=core))
        assert_close(module(h, context), attention(module, h, causal, HEADS, kv_heads=kv_heads))


@every_dtype
def test_heads_may_be_wider_than_the_model(dtype: torch.dtype) -> None:
    _, module, context, h = made(dtype, Attention(head_width=6))
    assert module.query.weight.shape == (6 * HEADS, WIDTH)
    assert_close(module(h, context), attention(module, h, causal, HEADS))


@every_dtype
def test_soft_cap(dtype: torch.dtype) -> None:
    """cap * tanh(logits / cap), after the scale and before the mask."""
    _, module, context, h = made(dtype, Attention(core=WrittenOut(cap=0.3)))
    assert_close(module(h, context), attention(module, h, causal, HEADS, cap=0.3))
    assert (module(h, context) - attention(module, h, causal, HEADS)).abs().max() > 1e-4, "the cap does nothing"


@every_dtype
def test_t5_does_not_divide_its_logits(dtype: torch.dtype) -> None:
    _, module, context, h = made(dtype, Attention(scale=1.0, bias=False))
    assert module.query.bias is module.output.bias is None
    assert_close(module(h, context), attention(module, h, causal, HEADS, scale=1.0))


@every_dtype
@pytest.mark.parametrize("norm", [RMSNorm(), LayerNorm()], ids=lambda norm: norm.kind)
def test_query_key_norm_over_each_head(norm, dtype: torch.dtype) -> None:
    """Qwen3, Gemma 3 (RMSNorm), ViT-22B (LayerNorm): one gain for all heads, another for keys than for queries."""
    _, module, context, h = made(dtype, Attention(query_key_norm=norm))

    def prepare(vector: Tensor, which: str, position: int) -> Tensor:
        gains = module.query_norm if which == "query" else module.key_norm
        assert gains.weight.shape == (HEAD,)
        return (
            rms_norm(vector, gains.weight) if norm.kind == "rms_norm" else layer_norm(vector, gains.weight, gains.bias)
        )

    assert_close(module(h, context), attention(module, h, causal, HEADS, prepare=prepare))


@every_dtype
def test_query_key_norm_over_all_heads_together(dtype: torch.dtype) -> None:
    """OLMo 2: the whole width is normalised before it is split."""
    _, module, context, h = made(dtype, Attention(query_key_norm=RMSNorm(), query_key_norm_over="width"))
    assert module.query_norm.weight.shape == (WIDTH,)

    q = rms_norm(project(module.query, h), module.query_norm.weight)
    k = rms_norm(project(module.key, h), module.key_norm.weight)
    logits = q.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) @ k.unflatten(-1, (HEADS, HEAD)).permute(0, 2, 3, 1)
    logits = (logits * HEAD**-0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    weights = torch.exp(logits) / torch.exp(logits).sum(dim=-1, keepdim=True)
    values = project(module.value, h).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
    assert_close(module(h, context), project(module.output, (weights @ values).transpose(1, 2).flatten(-2)))


def test_query_key_norm_bounds_the_logits() -> None:
    """By sqrt(d) at gain 1, however large the weights: what it is for."""
    _, module, _, h = made(torch.float64, Attention(query_key_norm=RMSNorm()))
    with torch.no_grad():
        for norm in (module.query_norm, module.key_norm):
            norm.weight.fill_(1.0)
        module.query.weight.mul_(1e3)
    logits = module.queries(h) @ module.keys(h).transpose(-2, -1) * HEAD**-0.5
    assert HEAD**0.5 * 0.5 < logits.abs().max() <= HEAD**0.5 + 1e-9


@every_dtype
def test_rotation_comes_after_the_norm(dtype: torch.dtype) -> None:
    """Qwen3's order: with gains that differ by feature, the other order gives other logits."""
    _, module, context, h = made(dtype, Attention(query_key_norm=RMSNorm()), positions=Rotary())

    def prepare(vector: Tensor, which: str, position: int) -> Tensor:
        gain = (module.query_norm if which == "query" else module.key_norm).weight
        return turned(rms_norm(vector, gain).double(), position, 10_000.0).to(dtype)

    assert_close(module(h, context), attention(module, h, causal, HEADS, prepare=prepare))


@every_dtype
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
def test_alibi_in_attention(mode: str, dtype: torch.dtype) -> None:
    _, module, context, h = made(dtype, Attention(), mode, positions=ALiBi())
    slopes = [2.0 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)]

    def sees(b: int, t: int, s: int) -> bool:
        return mode == "encoder" or s <= t

    expected = attention(module, h, sees, HEADS, bias=lambda head, t, s: -slopes[head] * abs(t - s))
    assert_close(module(h, context), expected)


@every_dtype
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
def test_t5_bias_in_attention(mode: str, dtype: torch.dtype) -> None:
    """Two-way buckets where everybody sees everybody, one-way ones in a causal stack; one table for all layers."""
    model, module, context, h = made(dtype, Attention(scale=1.0), mode, positions=Relative(buckets=8, max_distance=6))
    table = model.sight.bias.weight

    def sees(b: int, t: int, s: int) -> bool:
        return mode == "encoder" or s <= t

    def bias(head: int, t: int, s: int) -> Tensor:
        return table[bucket(s - t, 8, 6, mode == "encoder"), head]

    assert_close(module(h, context), attention(module, h, sees, HEADS, scale=1.0, bias=bias))
