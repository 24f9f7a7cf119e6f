"""Context: what a sub-layer may need beside its input. Seat: what it must know of the model it sits in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from addnorm.layers.cache import NO_CACHE, Cache, NoCache
from addnorm.layers.dropout import Dropout
from addnorm.layers.masks import Mask
from addnorm.layers.positions import Positions


class Context(NamedTuple):
    """Made once per forward, read by every sub-layer. Integers and booleans, so that no precision policy bends it."""

    positions: Tensor  # (B or 1, T): where each row of h stands
    masks: dict[int | None, Mask]  # by window; None is the stack's own mask
    memory: Tensor | None = None  # (B, S, D): the encoder's output
    memory_mask: Mask = Mask()
    cache: Cache | NoCache = NO_CACHE  # models say it: torch 2.11 cannot compile an object that is a default


@dataclass(frozen=True)
class Seat:
    """A sub-layer never learns which design surrounds it: this is all it is told."""

    width: int
    heads: int
    layer: int
    dropout: Dropout
    positions: Positions
