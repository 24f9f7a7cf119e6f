"""Skips that are more than an addition: a gate, a joint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Part, Role
from addnorm.spec import Float


class Gated(Arrangement, kind="gated"):
    """Highway gate: each feature chooses between the branch and the stream.

    Formula   g = sigmoid(W x + b);  x <- g * F(norm(x)) + (1 - g) * x;  out = norm(x)
    Cures     the fixed weight of one on either side: the stream can be kept, or replaced
    Costs     a D x D matrix per sub-layer; where gates close, the skip is no longer the identity
    Warm-up   not needed
    Paper     Srivastava et al. 2015, arXiv:1505.00387
    NOTE[DIFF] the branch is Pre-LN's; the paper has fully connected layers without norms.
    """

    norm: Norm = LayerNorm()
    bias: Float = -2.0
    """Where b is born: -2 lets through sigmoid(-2) = 12 % of the branch, so that the stack starts near the identity."""

    @property
    def basis_free(self) -> bool:
        return False

    def connect(self, site: Site) -> Connection:
        return Highway(self.norm.build(site.width), site.width, self.bias)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)


class Highway(Connection):
    def __init__(self, before: Callable[[Tensor], Tensor], width: int, bias: float) -> None:
        super().__init__()
        self.before = before
        self.gate = Gate(width, bias)

    def read(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        return self.before(stream), stream

    def write(self, stream: Tensor, y: Tensor) -> Tensor:
        g = self.gate(stream)
        return g * y + (1 - g) * stream


class Gate(Part):
    """sigmoid(W x + b)"""

    def __init__(self, width: int, born: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))
        self.bias = nn.Parameter(torch.full((width,), born))
        self.born = born

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(nn.functional.linear(x, self.weight, self.bias))

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "mix", self.weight

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.bias, self.born


class Concat(Arrangement, kind="concat"):
    """Concatenation: stream and branch side by side, brought back to width by a learned matrix.

    Formula   x <- W [x ; F(norm(x))],  W = [I I] at birth;  out = norm(x)
    Cures     the fixed addition: the model learns how to join
    Costs     a D x 2D matrix per sub-layer; once W has moved, the skip is no longer the identity
    Warm-up   not needed
    Paper     Huang et al. 2016 (DenseNet), arXiv:1608.06993, for the joint; W is ours, to keep the width
    """

    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Joined(self.norm.build(site.width), site.width)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)


class Joined(Connection):
    def __init__(self, before: Callable[[Tensor], Tensor], width: int) -> None:
        super().__init__()
        self.before = before
        self.join = Join(width)

    def read(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        return self.before(stream), stream

    def write(self, stream: Tensor, y: Tensor) -> Tensor:
        return self.join(stream, y)


class Join(Part):
    """W [x ; y]"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 2 * width))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.linear(torch.cat((x, y.to(x.dtype)), dim=-1), self.weight)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, torch.eye(len(self.weight)).repeat(1, 2)
