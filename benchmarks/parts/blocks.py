"""What is timed: our block in a design, and the Pre-LN block somebody would write by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.context import Context
from addnorm.models.block import Block
from addnorm.models.build import build

DEPTH, LAYER = 6, 3
"""A block from the middle of a stack: some designs cost more the deeper a block sits."""


@dataclass(frozen=True)
class Size:
    width: int
    batch: int
    length: int = 128
    heads: int = 8

    def __str__(self) -> str:
        return f"width {self.width}, length {self.length}, batch {self.batch}"


@dataclass(frozen=True)
class Contestant:
    call: Callable[[Any], Any]
    stream: Any  # what the block is given: one tensor, or a tuple of them
    parameters: list[nn.Parameter]


def our_block(name: str, size: Size) -> tuple[Block, Contestant]:
    """The block of that design, and the stream as the blocks below it left it."""
    model = build(name, width=size.width, heads=size.heads, depth=DEPTH, vocab=2)
    positions = torch.arange(size.length)[None]
    context = Context(positions, model.sight(positions, None, None, None))
    with torch.no_grad():
        stream = model.stack.open(draw(size))
        for block in model.stack.blocks[:LAYER]:
            stream = block(stream, context)
    block = model.stack.blocks[LAYER]
    assert isinstance(block, Block)
    return block, Contestant(lambda stream: block(stream, context), stream, list(block.parameters()))


def draw(size: Size) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size.batch, size.length, size.width, generator=generator)


class HandWritten(nn.Module):
    """Pre-LN with nothing to choose: what our block is measured against."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.ln1(x))
        return x + self.down(F.relu(self.up(self.ln2(x))))

    def attend(self, h: Tensor) -> Tensor:
        batch, length, width = h.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (linear(h).view(shape).transpose(1, 2) for linear in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


def by_hand(ours: Block, stream: Tensor, heads: int) -> Contestant:
    """On the very parameters of our block: the same numbers, at the same place in memory."""
    attention, feed_forward = ours.sublayers["self_attention"], ours.sublayers["feed_forward"]
    block = HandWritten(stream.shape[-1], heads)
    pairs = {
        block.ln1: ours.connections["self_attention"].before,
        block.q: attention.query,
        block.k: attention.key,
        block.v: attention.value,
        block.o: attention.output,
        block.ln2: ours.connections["feed_forward"].before,
        block.up: feed_forward.up,
        block.down: feed_forward.down,
    }
    for mine, theirs in pairs.items():
        mine.weight, mine.bias = theirs.weight, theirs.bias
    return Contestant(block, stream, list(ours.parameters()))
