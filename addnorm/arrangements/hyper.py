"""Hyper-connections: the stream is n lanes, mixed at every site. (B, T, n, D)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Part
from addnorm.spec import Count, Positive


class HyperConnections(Arrangement, kind="hyper_connections"):
    """Hyper-connections: n lanes; what is read, what is kept and what is written are learned and depend on the input.

    Formula   H <- A_r' H + B' F(norm(A_m' H));  A = A_0 + s tanh(norm(H) W);  out = norm(sum of lanes)
    Cures     the seesaw between Pre-LN's collapse and Post-LN's vanishing gradient: the wiring itself is learned
    Costs     n times the stream; mixing at every site
    Warm-up   kept
    Paper     Zhu et al. 2024, arXiv:2409.19606
    NOTE[DIFF] the paper's sqrt(n) on output matrices at birth is left off: identical lanes sum to n times, not sqrt(n).
    NOTE[DIFF] the sub-layer is Pre-LN's, the form the paper trains.
    """

    lanes: Count = 4
    scale: Positive = 0.01
    """Where s is born: how much the input may move the mixing at first."""
    norm: Norm = LayerNorm()

    def form(self) -> str:
        return f"{self.lanes} lanes"

    def open(self, site: Site) -> Callable[[Tensor], Tensor]:
        return Widen(self.lanes)

    def connect(self, site: Site) -> Connection:
        return Hyper(self, site)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return Narrow(self.norm.build(site.width))

    def numbers(self, site: Site) -> dict[str, float]:
        return {"lanes": self.lanes, "s at birth": self.scale}


class Widen(Part):
    """x -> n copies"""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-2).expand(-1, -1, self.lanes, -1)  # (B, T, D) -> (B, T, n, D)


class Narrow(Part):
    """Lanes -> norm(their sum)"""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, lanes: Tensor) -> Tensor:
        return self.norm(lanes.sum(dim=-2))


class Hyper(Connection):
    """read: h = norm(A_m' H) and A_r' H; write: + B' y. B travels in the stream from one to the other."""

    def __init__(self, design: HyperConnections, site: Site) -> None:
        super().__init__()
        self.mixing = Mixing(design, site)
        self.before = design.norm.build(site.width)

    def read(self, stream: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        take, keep, give = self.mixing(stream)
        h = (take.unsqueeze(-2) @ stream).squeeze(-2)  # (B, T, 1, n) @ (B, T, n, D) -> (B, T, D)
        return self.before(h), (keep.transpose(-2, -1) @ stream, give)

    def write(self, stream: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        lanes, give = stream
        return torch.addcmul(lanes, give.unsqueeze(-1), y.unsqueeze(-2))

    def view(self, stream: Any) -> Tensor:
        return stream.sum(dim=-2)


class LaneByLane(Part):
    """A norm that averages over positions looks for them before the features: (B, T, n, D) -> (B, n, T, D) and back."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, lanes: Tensor) -> Tensor:
        return self.norm(lanes.transpose(1, 2)).transpose(1, 2)


class Mixing(Part):
    """H -> A_m (B, T, n), A_r (B, T, n, n), B (B, T, n); at birth the k-th lane is read, and all lanes are written."""

    def __init__(self, design: HyperConnections, site: Site) -> None:
        super().__init__()
        n, width = design.lanes, site.width
        norm = design.norm.build(width)
        self.norm = norm if design.norm.position_wise else LaneByLane(norm)
        self.take, self.keep, self.give = (nn.Parameter(torch.empty(shape)) for shape in ((n,), (n, n), (n,)))
        self.take_by_input = nn.Parameter(torch.zeros(1, width))
        self.keep_by_input = nn.Parameter(torch.zeros(n, width))
        self.give_by_input = nn.Parameter(torch.zeros(1, width))
        self.scale_mix = nn.Parameter(torch.empty(1))  # s_alpha, of A_m and A_r
        self.scale_give = nn.Parameter(torch.empty(1))  # s_beta, of B
        self.lane, self.born = site.index % n, design.scale

    def forward(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        by_input = torch.cat((self.take_by_input, self.keep_by_input, self.give_by_input))  # (1 + n + 1, D)
        moved = torch.tanh(self.norm(lanes) @ by_input.T)  # (B, T, n, 1 + n + 1): one product over the wide stream
        take = self.take + self.scale_mix * moved[..., 0]
        keep = self.keep + self.scale_mix * moved[..., 1:-1]
        give = self.give + self.scale_give * moved[..., -1]
        return take, keep, give

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        n = len(self.take)
        yield self.take, torch.eye(n)[self.lane]
        yield self.keep, torch.eye(n)
        yield self.give, 1.0
        for by_input in (self.take_by_input, self.keep_by_input, self.give_by_input):
            yield by_input, 0.0
        yield self.scale_mix, self.born
        yield self.scale_give, self.born
