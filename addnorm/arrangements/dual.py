"""ResiDual: two streams, one set of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.arrangements.bottom import Pair
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Part
from addnorm.spec import Positive


class ResiDual(Arrangement, kind="resi_dual"):
    """ResiDual: a Post-LN stream that the sub-layers read, and beside it a plain one that only adds up.

    Formula   f = F(p);  p <- norm(p + f),  r <- r + f;  out = p + norm(r)
    Cures     Post-LN's vanishing gradients (r is a clean path) and Pre-LN's collapse of late layers (p is normalised)
    Costs     a second stream of width D
    Warm-up   kept
    Paper     Xie et al. 2023, arXiv:2304.14802
    NOTE[DIFF] `guard` multiplies everything that enters r, against fp16 overflow; the closing norm undoes it.
    """

    norm: Norm = LayerNorm()
    final_norm: Norm = LayerNorm(eps=1e-7)
    guard: Positive = 1.0
    """The official code: 1, and 0.05 for its deepest fp16 runs."""

    def form(self) -> str:
        return "(post, plain)"

    def open(self, site: Site) -> Callable[[Tensor], Pair]:
        return Fork(self.guard)

    def connect(self, site: Site) -> Connection:
        return Dual(self.norm.build(site.width), self.guard)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return Merge(self.final_norm.build(site.width))


class Fork(Part):
    """x -> (x, guard x)"""

    def __init__(self, guard: float) -> None:
        super().__init__()
        self.guard = guard

    def forward(self, x: Tensor) -> Pair:
        return x, x * self.guard


class Dual(Connection):
    def __init__(self, after: Callable[[Tensor], Tensor], guard: float) -> None:
        super().__init__()
        self.after, self.guard = after, guard

    def read(self, stream: Pair) -> tuple[Tensor, Pair]:
        return stream[0], stream

    def write(self, stream: Pair, y: Tensor) -> Pair:
        post, plain = stream
        return self.after(post + y), plain + y * self.guard

    def view(self, stream: Pair) -> Tensor:
        return stream[0]


class Merge(Part):
    """(p, r) -> p + norm(r)"""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, stream: Pair) -> Tensor:
        post, plain = stream
        return post + self.norm(plain)
