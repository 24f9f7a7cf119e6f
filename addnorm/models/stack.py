"""The stack: open, blocks, close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, get_args

from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Kind, Side, Site
from addnorm.layers.context import Context, Seat
from addnorm.layers.dropout import Dropout
from addnorm.layers.positions import Positions
from addnorm.layers.sublayer import SublayerSpec
from addnorm.models.block import Block


@dataclass(frozen=True)
class Plan:
    """All that a stack is made from: a design, contents, and sizes."""

    side: Side
    design: Arrangement
    contents: dict[str, SublayerSpec]
    width: int
    heads: int
    depth: int
    other_depth: int
    positions: Positions
    dropout: Dropout

    def site(self, kind: Kind, layer: int, slot: int = 0) -> Site:
        slots = len(self.contents)
        return Site(self.side, kind, layer, slot, slots, self.depth, self.other_depth, self.width, self.heads)

    def seat(self, layer: int) -> Seat:
        return Seat(self.width, self.heads, layer, self.dropout, self.positions)

    def block(self, layer: int) -> Block:
        sites, sublayers, connections = {}, {}, {}
        for slot, (name, content) in enumerate(self.contents.items()):
            sites[name] = self.site(kind_of(name), layer, slot)
            build = content.build_cross if name == "cross_attention" else content.build
            sublayers[name] = build(self.seat(layer))
            connections[name] = self.connect(sites[name])
        return Block(sites, sublayers, connections)

    def connect(self, site: Site) -> Connection:
        connection = self.design.connect(site)
        if not isinstance(connection, Connection):
            raise TypeError(
                f"{type(self.design).__name__}.connect: wanted a Connection, came {connection!r}; is a return missing?"
            )
        return connection


def kind_of(name: str) -> Kind:
    """A sub-layer's name begins with its kind; a block may hold two of a kind, as feed_forward and feed_forward_2."""
    for kind in get_args(Kind):
        if name.startswith(kind):
            return cast(Kind, kind)
    raise ValueError(f"wanted a sub-layer's name that begins with one of {', '.join(get_args(Kind))}, came {name!r}")


class Stack(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.open = plan.design.open(plan.site("open", 0))
        self.blocks = nn.ModuleList(plan.block(layer) for layer in range(plan.depth))
        self.close = plan.design.close(plan.site("close", plan.depth))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        stream = self.open(x)
        for block in self.blocks:
            stream = block(stream, context)
        return self.close(stream)

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        """Where each part sits: what birth and probes go by."""
        design, plan = self.plan.design, self.plan
        for end, site in ((self.open, plan.site("open", 0)), (self.close, plan.site("close", plan.depth))):
            if isinstance(end, nn.Module):
                yield design, site, end
        for block in self.blocks:
            assert isinstance(block, Block)
            for name, site in block.sites.items():
                yield design, site, block.sublayers[name]
                yield design, site, block.connections[name]
