"""The feed-forwards written out, plain, gated, and Fixup's with its scalar shifts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from addnorm.layers.feed_forward import FeedForward, GatedFeedForward
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from addnorm.models.build import build
from tests.papers.softmaxes import attention, project
from tests.papers.stacks import DTYPES, arguments_of, normal, redraw, tokens
from tests.tolerances import assert_close

WIDTH = 6
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
ACTIVATIONS = {
    "relu": lambda x: torch.where(x > 0, x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


def made(spec, dtype: torch.dtype):
    model = build("no_norm", depth=1, width=WIDTH, heads=2, vocab=11, feed_forward=spec, dtype=dtype)
    redraw(model)
    return model.stack.blocks[0].sublayers["feed_forward"]


def h_of(dtype: torch.dtype) -> Tensor:
    return normal((2, 3, WIDTH), seed=7, dtype=dtype)


@every_dtype
@every_activation
def test_plain(activation: str, dtype: torch.dtype) -> None:
    module, h = made(FeedForward(activation=activation), dtype), h_of(dtype)
    assert module.up.weight.shape == (4 * WIDTH, WIDTH)
    assert_close(module(h, None), project(module.down, ACTIVATIONS[activation](project(module.up, h))))


@every_dtype
@every_activation
def test_gated(activation: str, dtype: torch.dtype) -> None:
    """The non-linearity is on the gate, not on what it lets through; 8/3 as wide: three matrices weigh as two."""
    module, h = made(GatedFeedForward(activation=activation), dtype), h_of(dtype)
    assert module.up.weight.shape == (16, WIDTH)
    assert module.up.bias is None
    hidden = ACTIVATIONS[activation](project(module.gate, h)) * project(module.up, h)
    assert_close(module(h, None), project(module.down, hidden))


@every_dtype
def test_fixup_shifts_before_each_matrix_and_before_the_relu(dtype: torch.dtype) -> None:
    module, h = made(FixupFeedForward(), dtype), h_of(dtype)
    a, b, c = module.before_up.bias, module.before_relu.bias, module.before_down.bias
    hidden = ACTIVATIONS["relu"]((h - a) @ module.up.weight.T - b)
    assert_close(module(h, None), (hidden - c) @ module.down.weight.T)
    assert {name for name, _ in module.named_parameters()} == {
        "before_up.bias", "before_relu.bias", "before_down.bias", "up.weight", "down.weight",
    }  # fmt: skip


@every_dtype
def test_fixup_shifts_once_before_attention(dtype: torch.dtype) -> None:
    model = build(
        "no_norm", mode="decoder", depth=1, width=8, heads=2, vocab=11, attention=FixupAttention(), dtype=dtype
    )
    redraw(model)
    _, context = arguments_of(model, model.stack, (tokens(),))
    module = model.stack.blocks[0].sublayers["self_attention"]
    h = normal((2, 4, 8), seed=7, dtype=dtype)
    assert_close(module(h, context), attention(module.inner, h - module.shift.bias, lambda b, t, s: s <= t, 2))
    assert module.inner.query.bias is module.inner.output.bias is None
