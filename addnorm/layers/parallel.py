"""Parallel: several sub-layers that read the same h and write one y, their sum (GPT-J, PaLM)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from addnorm.layers.context import Context, Seat
from addnorm.layers.part import Part
from addnorm.layers.sublayer import SublayerSpec
from addnorm.spec import SpecError


class Parallel(SublayerSpec, kind="parallel"):
    parts: tuple[SublayerSpec, ...]

    def model_post_init(self, context: Any) -> None:
        if len(self.parts) < 2:
            raise SpecError(f"parallel: wanted two or more sub-layers, came {len(self.parts)}")

    def check(self, seat: Seat) -> None:
        for part in self.parts:
            part.check(seat)

    def build(self, seat: Seat) -> Part:
        return ParallelModule([part.build(seat) for part in self.parts])

    def windows(self) -> set[int | None]:
        return {window for part in self.parts for window in part.windows()}


class ParallelModule(Part):
    def __init__(self, parts: list[Part]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, h: Tensor, context: Context) -> Tensor:
        first, *rest = (part(h, context) for part in self.parts)
        return sum(rest, first)
