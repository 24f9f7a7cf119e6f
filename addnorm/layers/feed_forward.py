"""Feed-forward: y = down(act(up h)), or gated: y = down(act(gate h) * up h)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from addnorm.layers.context import Context, Seat
from addnorm.layers.part import Linear, Part, dropout
from addnorm.layers.sublayer import SublayerSpec
from addnorm.spec import Bool, Count, Positive

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
}


class FeedForward(SublayerSpec, kind="feed_forward"):
    activation: Activation = "relu"
    hidden: Count | None = None
    """Inner width; None: `ratio` times the width, rounded up to a multiple of `multiple`."""
    ratio: Positive = 4.0
    multiple: Count = 1
    bias: Bool = True

    def build(self, seat: Seat) -> Part:
        return FeedForwardModule(self, seat)


class GatedFeedForward(SublayerSpec, kind="gated_feed_forward"):
    """Shazeer 2020, arXiv:2002.05202: SwiGLU (silu), GEGLU (gelu), ReGLU (relu)."""

    activation: Activation = "silu"
    hidden: Count | None = None
    """Inner width; None: `ratio` times the width, rounded up to a multiple of `multiple`."""
    ratio: Positive = 8.0 / 3.0  # three matrices of 8/3 weigh as much as two of 4
    multiple: Count = 1
    bias: Bool = False

    def build(self, seat: Seat) -> Part:
        return GatedFeedForwardModule(self, seat)


def hidden_width(hidden: int | None, ratio: float, multiple: int, width: int) -> int:
    """As asked for, or ratio times width rounded up to a multiple, and never nothing."""
    if hidden is not None:
        return hidden
    # The little that is taken off keeps 8/3 * 192 = 512.0000001 from becoming 513.
    return multiple * max(1, math.ceil(ratio * width / multiple - 1e-6))


class FeedForwardModule(Part):
    def __init__(self, spec: FeedForward, seat: Seat) -> None:
        super().__init__()
        hidden = hidden_width(spec.hidden, spec.ratio, spec.multiple, seat.width)
        self.up = Linear(seat.width, hidden, "up", spec.bias)
        self.down = Linear(hidden, seat.width, "down", spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.hidden_dropout, self.dropout = dropout(seat.dropout.hidden), dropout(seat.dropout.branch)

    def forward(self, h: Tensor, context: Context) -> Tensor:
        hidden = self.hidden_dropout(self.activation(self.up(h)))
        return self.dropout(self.down(hidden))


class GatedFeedForwardModule(Part):
    def __init__(self, spec: GatedFeedForward, seat: Seat) -> None:
        super().__init__()
        hidden = hidden_width(spec.hidden, spec.ratio, spec.multiple, seat.width)
        self.gate = Linear(seat.width, hidden, "gate", spec.bias)
        self.up = Linear(seat.width, hidden, "up", spec.bias)
        self.down = Linear(hidden, seat.width, "down", spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.hidden_dropout, self.dropout = dropout(seat.dropout.hidden), dropout(seat.dropout.branch)

    def forward(self, h: Tensor, context: Context) -> Tensor:
        hidden = self.hidden_dropout(self.activation(self.gate(h)) * self.up(h))
        return self.dropout(self.down(hidden))


FEED_FORWARDS: dict[str, SublayerSpec] = {
    "relu": FeedForward(activation="relu"),
    "gelu": FeedForward(activation="gelu"),
    "gelu_tanh": FeedForward(activation="gelu_tanh"),
    "swiglu": GatedFeedForward(activation="silu"),
    "geglu": GatedFeedForward(activation="gelu"),
    "geglu_tanh": GatedFeedForward(activation="gelu_tanh"),
    "reglu": GatedFeedForward(activation="relu"),
}
"""The names people use, for those who do not want to spell out a Spec."""
