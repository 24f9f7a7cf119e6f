"""Who sees whom, written as a rule on columns, through a whole softmax: both cores of attention agree with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from addnorm.layers.attention import SDPA, Attention, Core, WrittenOut
from addnorm.layers.masks import PrefixCausal
from addnorm.models.build import make_spec
from tests.papers.softmaxes import attention
from tests.papers.stacks import DTYPES, HEADS, VOCAB, WIDTH, arguments_of, normal, redraw
from tests.tolerances import assert_close

B, T, S = 3, 6, 7
REAL = torch.ones(B, T, dtype=torch.bool)
REAL[1, 4:] = False  # padded on the right
REAL[2, :2] = False  # padded on the left
SOURCE_REAL = torch.ones(B, S, dtype=torch.bool)
SOURCE_REAL[1, 2:] = False
PREFIX = torch.tensor([0, 3, 6])
WINDOW = 3

every_core = pytest.mark.parametrize("core", [SDPA(), WrittenOut()], ids=lambda core: core.kind)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def tokens(length: int = T) -> Tensor:
    return torch.randint(VOCAB, (B, length), generator=torch.Generator().manual_seed(0))


def made(mode: str, core: Core, dtype: torch.dtype, window: int | None = None, **changes):
    spec = make_spec(
        "no_norm",
        mode=mode,
        depth=1,
        width=WIDTH,
        heads=HEADS,
        vocab=VOCAB,
        attention=Attention(core=core, window=window),
    )
    model = spec.replace(changes).build().to(dtype)
    redraw(model)
    return model


def of_the_stack(model, stack, kind: str, *batch, **more) -> Callable[[Tensor], Tensor]:
    """A block's sub-layer as a function of its input, in the context that the model makes of the batch."""
    seen = []
    handle = stack.register_forward_pre_hook(lambda module, args: seen.append(args))
    with torch.no_grad():
        model(*batch, **more)
    handle.remove()
    return lambda h: stack.blocks[0].sublayers[kind](h, seen[0][1])


@every_core
@every_dtype
@pytest.mark.parametrize("window", [None, WINDOW])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
def test_self_attention(mode: str, padded: bool, window: int | None, dtype: torch.dtype, core: Core) -> None:
    def sees(b: int, t: int, s: int) -> bool:
        near = window is None or abs(t - s) < window
        return near and (mode == "encoder" or s <= t) and (not padded or bool(REAL[b, s]))

    model = made(mode, core, dtype, window)
    sublayer = of_the_stack(model, model.stack, "self_attention", tokens(), *([REAL] if padded else []))
    h = normal((B, T, WIDTH), seed=8, dtype=dtype)
    expected = attention(model.stack.blocks[0].sublayers["self_attention"], h, sees, HEADS)
    # What a padded token itself says is nobody's business.
    asked = REAL if padded else torch.ones_like(REAL)
    assert_close(sublayer(h)[asked], expected[asked])


@every_core
@every_dtype
@pytest.mark.parametrize("padded", [False, True])
def test_prefix_causal_attention(padded: bool, dtype: torch.dtype, core: Core) -> None:
    """Fully visible inside the prefix, causal after it; the prefix counts real tokens."""

    def sees(b: int, t: int, s: int) -> bool:
        place = int(REAL[b, : s + 1].sum()) - 1 if padded else s
        return (s <= t or place < PREFIX[b]) and (not padded or bool(REAL[b, s]))

    model = made("decoder", core, dtype, visibility=PrefixCausal())
    batch = (tokens(), REAL) if padded else (tokens(),)
    sublayer = of_the_stack(model, model.stack, "self_attention", *batch, prefix=PREFIX)
    h = normal((B, T, WIDTH), seed=8, dtype=dtype)
    expected = attention(model.stack.blocks[0].sublayers["self_attention"], h, sees, HEADS)
    asked = REAL if padded else torch.ones_like(REAL)
    assert_close(sublayer(h)[asked], expected[asked])


@every_core
@every_dtype
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention(padded: bool, dtype: torch.dtype, core: Core) -> None:
    """Every query sees every real row of the memory, and the target's own mask has no say."""
    model = made("encoder_decoder", core, dtype)
    batch = (tokens(S), tokens()) + ((SOURCE_REAL, REAL) if padded else ())
    _, context = arguments_of(model, model.decoder, batch)
    h = normal((B, T, WIDTH), seed=8, dtype=dtype)
    module = model.decoder.blocks[0].sublayers["cross_attention"]
    expected = attention(module, h, lambda b, t, s: not padded or bool(SOURCE_REAL[b, s]), HEADS, source=context.memory)
    assert_close(module(h, context), expected)


@every_core
@every_dtype
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
def test_a_row_of_nothing_but_padding_attends_to_nothing(mode: str, dtype: torch.dtype, core: Core) -> None:
    """A softmax over nothing: zero, so that only the output's bias is left; and no NaN, forward or backward."""
    model = made(mode, core, dtype)
    real = REAL.clone()
    real[0] = False
    sublayer = of_the_stack(model, model.stack, "self_attention", tokens(), real)
    h = normal((B, T, WIDTH), seed=8, dtype=dtype).requires_grad_()
    y = sublayer(h)
    bias = model.stack.blocks[0].sublayers["self_attention"].output.bias
    assert bias.abs().max() > 0.01
    assert_close(y[0], bias.expand_as(y[0]))
    (gradient,) = torch.autograd.grad(y.square().sum(), h)
    assert gradient.isfinite().all()
    assert not gradient[0].any()
