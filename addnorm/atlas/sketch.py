"""A small stack of the real open, connections and close, with stand-ins for the sub-layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.layers.part import Part
from addnorm.models.block import Block

# Odd sizes, which no width and no number of lanes is likely to have: dimensions are recognised by them.
BATCH, LENGTH = 11, 13


def anything(h: Tensor, *others: Any, **options: Any) -> Tensor:
    """What a sub-layer or a norm computes is not the picture's subject; that it makes a new value is."""
    return torch.empty_like(h)


class StandIn(Part):
    """Stands where a sub-layer would."""

    def forward(self, h: Tensor, context: None) -> Tensor:
        return anything(h)


class End(nn.Module):
    """An `open` or `close` that is a plain function, made a module so that what it does has an owner."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, stream: Any) -> Any:
        return self.function(stream)


class Sketch(nn.Module):
    """A stack with some of its blocks. Its modules have the paths that they have in the real one."""

    def __init__(self, blocks: dict[int, Block], ends: dict[str, Callable[[Any], Any]]) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({str(layer): block for layer, block in blocks.items()})
        self.ends = {name: end if isinstance(end, nn.Module) else End(end) for name, end in ends.items()}
        for name, end in self.ends.items():
            self.add_module(name, end)

    def forward(self, stream: Any) -> Any:
        if "open" in self.ends:
            stream = self.ends["open"](stream)
        for block in self.blocks.values():
            stream = block(stream, None)
        return self.ends["close"](stream) if "close" in self.ends else stream
