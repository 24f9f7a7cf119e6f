"""A seat, a context and a module with random weights: what one layer needs to be tried alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from addnorm.layers.cache import NO_CACHE
from addnorm.layers.context import Context, Seat
from addnorm.layers.dropout import Dropout
from addnorm.layers.masks import Mask
from addnorm.layers.positions import NoPositions, Positions
from addnorm.layers.sublayer import SublayerSpec

WIDTH, HEADS, BATCH, LENGTH = 12, 4, 2, 5


def draw(*size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@torch.no_grad()
def redraw(module: Any, seed: int = 0) -> Any:
    """Every parameter at random: a weight of one or a bias of zero would hide what is done with it."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(module, nn.Module):
        module.double()
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def seat(
    layer: int = 0,
    positions: Positions | None = None,
    dropout: Dropout | None = None,
    width: int = WIDTH,
    heads: int = HEADS,
) -> Seat:
    return Seat(width, heads, layer, dropout or Dropout(), positions or NoPositions())


def built(spec: SublayerSpec, seed: int = 0, cross: bool = False, **choices: Any) -> Any:
    """A sub-layer with random weights, in float64."""
    build = spec.build_cross if cross else spec.build
    return redraw(build(seat(**choices)), seed)


def context(
    mask: Mask | None = None,
    window: int | None = None,
    positions: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Mask | None = None,
    cache: Any = NO_CACHE,
) -> Context:
    positions = torch.arange(LENGTH)[None] if positions is None else positions
    return Context(positions, {window: mask or Mask()}, memory, memory_mask or Mask(), cache)
