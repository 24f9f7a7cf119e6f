"""A model of parts with sites, a design that does as told: what birth needs to be tried alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Site
from addnorm.layers.part import Part, Role

WIDTH = 64
SITE = Site("decoder", "feed_forward", 0, 0, 1, 1, 0, WIDTH, 4)


@dataclass
class Design:
    """Stands for an Arrangement: a gain for each role, and a constraint for some."""

    gains: dict[str, float] = field(default_factory=dict)
    rules: dict[str, Callable[[Tensor], None]] = field(default_factory=dict)

    def gain(self, site: Site, role: Role) -> float:
        return self.gains.get(role, 1.0)

    def constrain(self, site: Site, role: Role) -> Callable[[Tensor], None] | None:
        return self.rules.get(role)


class Whole(nn.Module):
    """Parts by name, each at a site, each under a design of its own."""

    def __init__(self, *entries: tuple[Design, str, nn.Module]) -> None:
        super().__init__()
        for _, name, part in entries:
            self.add_module(name, part)
        self.entries = entries

    def sites(self) -> Iterator[tuple[Any, Site, nn.Module]]:
        for design, _, part in self.entries:
            yield design, SITE, part


class Fused(Part):
    """Query, key and value in one matrix, each with a role of its own."""

    def __init__(self, width: int = WIDTH, roles: tuple[Role, ...] = ("query", "key", "value")) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3 * width, width), float("nan")))
        self.roles = roles

    def views(self) -> dict[str, Tensor]:
        return dict(zip(("query", "key", "value"), self.weight.chunk(3), strict=True))

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        for role in self.roles:
            yield role, self.views()[role]
