"""Feed-forwards against their formulas."""

import pytest
import torch

from addnorm.layers.dropout import Dropout
from addnorm.layers.feed_forward import FEED_FORWARDS, FeedForward, GatedFeedForward, hidden_width
from addnorm.layers.fixup import FixupFeedForward
from tests.layers.stage import BATCH, LENGTH, WIDTH, built, context, draw, seat
from tests.tolerances import assert_close

H = draw(BATCH, LENGTH, WIDTH, seed=3)


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + torch.exp(-x))


def relu(x):
    return x.clamp(min=0)


PLAIN = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}
GATED = {"swiglu": silu, "geglu": gelu, "geglu_tanh": gelu_tanh, "reglu": relu}


def test_every_name_is_tried_here():
    assert set(FEED_FORWARDS) == set(PLAIN) | set(GATED)


@pytest.mark.parametrize("name", PLAIN)
def test_plain(name):
    m = built(FEED_FORWARDS[name])
    hidden = PLAIN[name](H @ m.up.weight.T + m.up.bias)
    assert_close(m(H, context()), hidden @ m.down.weight.T + m.down.bias)


@pytest.mark.parametrize("name", GATED)
def test_gated(name):
    m = built(FEED_FORWARDS[name])
    assert m.up.bias is None
    hidden = GATED[name](H @ m.gate.weight.T) * (H @ m.up.weight.T)
    assert_close(m(H, context()), hidden @ m.down.weight.T)


@pytest.mark.parametrize(
    ("spec", "width", "hidden"),
    [
        (FeedForward(), 512, 2048),
        (FeedForward(hidden=7, ratio=2.0), 512, 7),
        (FeedForward(ratio=1.5), 5, 8),
        (FeedForward(ratio=1.1), 100, 110),  # 1.1 * 100 is 110.00000000000001
        (GatedFeedForward(), 192, 512),
        (GatedFeedForward(multiple=256), 768, 2048),
        (GatedFeedForward(multiple=256), 4096, 11008),
        (GatedFeedForward(ratio=4 / 3), 192, 256),
    ],
    ids=["4 D", "given", "rounded up", "a rounding error", "8/3 D", "multiple", "Llama 7B", "4/3 D"],
)
def test_inner_width(spec, width, hidden):
    assert hidden_width(spec.hidden, spec.ratio, spec.multiple, width) == hidden
    assert spec.build(seat(width=width)).up.out_features == hidden


@pytest.mark.parametrize("spec", [FeedForward(ratio=0.01), GatedFeedForward(ratio=0.01), FixupFeedForward(ratio=0.01)])
def test_the_inner_width_is_never_zero(spec):
    """A feed-forward without hidden features would be a constant."""
    assert spec.build(seat(width=4)).up.out_features >= 1


@pytest.mark.parametrize("spec", [FeedForward(), GatedFeedForward(), FixupFeedForward()], ids=lambda spec: spec.kind)
def test_hidden_dropout_stands_before_down_and_branch_dropout_after(spec):
    """All hidden features dropped leave what down makes of zero; all of the branch dropped leave zero."""
    m = built(spec, dropout=Dropout(hidden=0.5, branch=0.5))
    torch.manual_seed(0)
    dropped = m(H, context())
    assert 0.3 < (dropped == 0).double().mean() < 0.7
    m.dropout.p = 0.0
    m.hidden_dropout.p = 1.0
    bias = 0.0 if m.down.bias is None else m.down.bias
    shift = m.before_down.bias * m.down.weight.sum(1) if spec.kind == "fixup_feed_forward" else 0.0
    assert_close(m(H, context()), torch.zeros_like(H) + bias - shift)
