"""Cache: keys and values of what was read before, in buffers that never move. Seen by attention alone.

cache.advance(positions, real)      the model: T new columns begin here
k, v = cache.extend(self, k, v)     each self-attention: write mine, give me all
k, v = cache.memory(self, make)     each cross-attention: made once, then kept
cache.reorder(rows)                 beam search: row i goes on from row rows[i]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


class NoCache:
    """Training: nothing was read before."""

    def extend(self, owner: Hashable, key: Tensor, value: Tensor) -> Pair:
        return key, value

    def memory(self, owner: Hashable, make: Callable[[], Pair]) -> Pair:
        return make()


NO_CACHE = NoCache()


class Cache:
    def __init__(self, batch: int, capacity: int, device: torch.device | str | None = None) -> None:
        self.capacity = capacity
        self.start = 0  # first column of the tokens being read now
        self.length = 0  # one past their last column
        self.positions = torch.zeros(batch, capacity, dtype=torch.long, device=device)
        self.real = torch.zeros(batch, capacity, dtype=torch.bool, device=device)
        self.pairs: dict[Hashable, Pair] = {}  # by owner, (B, kv heads, capacity, d)
        self.memories: dict[Hashable, Pair] = {}

    def advance(self, positions: Tensor, real: Tensor) -> None:
        """positions, real: (B, T) of the tokens about to be read."""
        wanted = self.length + positions.shape[1]
        if wanted > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} tokens a row, wanted {wanted}; make it with a larger capacity"
            )
        self.start, self.length = self.length, wanted
        self.positions[:, self.start : self.length] = positions
        self.real[:, self.start : self.length] = real

    def extend(self, owner: Hashable, key: Tensor, value: Tensor) -> Pair:
        if owner not in self.pairs:
            batch, heads, _, width = key.shape
            shape = (batch, heads, self.capacity, width)
            self.pairs[owner] = (key.new_zeros(shape), value.new_zeros((*shape[:3], value.shape[-1])))
        keys, values = self.pairs[owner]
        keys[:, :, self.start : self.length] = key
        values[:, :, self.start : self.length] = value
        return keys[:, :, : self.length], values[:, :, : self.length]

    def memory(self, owner: Hashable, make: Callable[[], Pair]) -> Pair:
        if owner not in self.memories:
            self.memories[owner] = make()
        return self.memories[owner]

    def reorder(self, rows: Tensor) -> None:
        self.positions, self.real = self.positions[rows], self.real[rows]
        self.pairs = {owner: (k[rows], v[rows]) for owner, (k, v) in self.pairs.items()}
        self.memories = {owner: (k[rows], v[rows]) for owner, (k, v) in self.memories.items()}
