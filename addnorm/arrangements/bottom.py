"""Designs whose stream remembers the block's input: (x, bottom)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Role
from addnorm.spec import Float

Pair = tuple[Tensor, Tensor]


def twice(x: Tensor) -> Pair:
    """Open: the embedding is the first block's input."""
    return x, x


def top(stream: Pair) -> Tensor:
    return stream[0]


class B2T(Arrangement, kind="b2t"):
    """B2T: Post-LN with one more skip, from the block's bottom to its top.

    Formula   a = norm(x + F_1(x));  x <- norm(x + a + F_2(a))
    Cures     Post-LN's vanishing gradients: the extra skip passes by every norm of the block but its last
    Costs     one more tensor kept through each block
    Warm-up   kept
    Paper     Takase et al. 2022, arXiv:2206.00330
    NOTE[DIFF] every matrix of a block is born times N^(-1/2), N the stack's depth, as in the authors' released code;
    depth_power = 0 leaves the base alone.
    NOTE[DIFF] with three sub-layers the middle one is plain Post-LN, as in the paper's decoder; a block of one
    sub-layer has no norm to pass by, and is plain Post-LN.
    """

    norm: Norm = LayerNorm()
    depth_power: Float = 0.5
    """Matrices inside the blocks are born times depth^(-depth_power)."""

    def form(self) -> str:
        return "(x, bottom)"

    def open(self, site: Site) -> Callable[[Tensor], Pair]:
        return twice

    def connect(self, site: Site) -> Connection:
        reaches_top = site.last_slot and site.slots > 1
        return BottomToTop(
            skip=both if reaches_top else top,
            after=self.norm.build(site.width),
            pass_on=begin_block if site.last_slot else same_block,
        )

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return top

    def gain(self, site: Site, role: Role) -> float:
        inside = site.kind not in ("embedding", "open", "close", "head")
        return site.depth**-self.depth_power if inside else 1.0


def both(stream: Pair) -> Tensor:
    return stream[0] + stream[1]


def begin_block(x: Tensor, bottom: Tensor) -> Pair:
    """A block ends: what it leaves is the next one's bottom, and the old bottom is free."""
    return x, x


def same_block(x: Tensor, bottom: Tensor) -> Pair:
    return x, bottom


class BottomToTop(Connection):
    """(x, bottom) <- (after(skip(x, bottom) + F(x)), bottom)"""

    def __init__(
        self,
        skip: Callable[[Pair], Tensor],
        after: Callable[[Tensor], Tensor],
        pass_on: Callable[[Tensor, Tensor], Pair],
    ) -> None:
        super().__init__()
        self.skip, self.after, self.pass_on = skip, after, pass_on

    def read(self, stream: Pair) -> tuple[Tensor, Pair]:
        return stream[0], stream

    def write(self, stream: Pair, y: Tensor) -> Pair:
        return self.pass_on(self.after(self.skip(stream) + y), stream[1])

    def view(self, stream: Pair) -> Tensor:
        return stream[0]


class TwoResidual(Arrangement, kind="two_residual"):
    """Two residuals: the block's input and its hidden state both join before the last non-linearity.

    Formula   h = relu(F_1(x));  x <- relu(F_2(h) + x + h)
    Cures     nothing that is known: a variant of He's block, with one skip inside the other, for study
    Costs     the stream is never negative; no norm bounds it
    Warm-up   needed
    Paper     He et al. 2015, arXiv:1512.03385, of whose block it is a variant
    NOTE[DIFF] a third sub-layer in the middle is h <- relu(F(h) + h); a block of one sub-layer is x <- relu(F(x) + x).
    """

    @property
    def basis_free(self) -> bool:
        return False

    def form(self) -> str:
        return "(x, bottom)"

    def open(self, site: Site) -> Callable[[Tensor], Pair]:
        return twice

    def connect(self, site: Site) -> Connection:
        if site.slots == 1:
            skip = top
        elif site.first_slot:
            skip = nothing
        else:
            skip = both if site.last_slot else top
        return BottomToTop(skip, after=torch.relu, pass_on=begin_block if site.last_slot else same_block)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return top


def nothing(stream: Pair) -> Any:
    return 0.0
