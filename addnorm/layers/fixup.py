"""Fixup's sub-layers (Zhang, Dauphin & Ma 2019, arXiv:1901.09321): scalar shifts where a norm's bias would have been.

    attention      MHA(h - a)                              no biases in its matrices
    feed-forward   W_2 (relu(W_1 (h - a) - b) - c)         no biases in its matrices

Every shift is one learned scalar, born 0. The scale after the branch belongs to the design, `Fixup`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.attention import Attention
from addnorm.layers.context import Context, Seat
from addnorm.layers.feed_forward import hidden_width
from addnorm.layers.part import Linear, Part, dropout
from addnorm.layers.sublayer import SublayerSpec
from addnorm.spec import Count, Positive


class Shift(Part):
    """x - b, b one learned scalar born 0."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.bias

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.bias, 0.0


class FixupAttention(SublayerSpec, kind="fixup_attention"):
    """NOTE[DIFF] one shift before the whole attention, as in the official code."""

    attention: SublayerSpec = Attention(bias=False)

    def check(self, seat: Seat) -> None:
        self.attention.check(seat)

    def check_cross(self, seat: Seat) -> None:
        self.attention.check_cross(seat)

    def windows(self) -> set[int | None]:
        return self.attention.windows()

    def build(self, seat: Seat) -> Part:
        return ShiftedModule(self.attention.build(seat))

    def build_cross(self, seat: Seat) -> Part:
        return ShiftedModule(self.attention.build_cross(seat))


class ShiftedModule(Part):
    def __init__(self, inner: Part) -> None:
        super().__init__()
        self.shift = Shift()
        self.inner = inner

    def forward(self, h: Tensor, context: Context) -> Tensor:
        return self.inner(self.shift(h), context)


class FixupFeedForward(SublayerSpec, kind="fixup_feed_forward"):
    hidden: Count | None = None
    ratio: Positive = 4.0

    def build(self, seat: Seat) -> Part:
        return FixupFeedForwardModule(self, seat)


class FixupFeedForwardModule(Part):
    def __init__(self, spec: FixupFeedForward, seat: Seat) -> None:
        super().__init__()
        hidden = hidden_width(spec.hidden, spec.ratio, 1, seat.width)
        self.before_up, self.before_relu, self.before_down = Shift(), Shift(), Shift()
        self.up = Linear(seat.width, hidden, "up", bias=False)
        self.down = Linear(hidden, seat.width, "down", bias=False)
        self.hidden_dropout, self.dropout = dropout(seat.dropout.hidden), dropout(seat.dropout.branch)

    def forward(self, h: Tensor, context: Context) -> Tensor:
        hidden = F.relu(self.before_relu(self.up(self.before_up(h))))
        return self.dropout(self.down(self.before_down(self.hidden_dropout(hidden))))
