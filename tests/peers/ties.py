"""Ties: which of our parameters is which of a peer's. One list serves copying weights and comparing gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tests.tolerances import assert_close

WHOLE = slice(None)


class Tie(NamedTuple):
    """Rows of ours equal rows of the peer's: a peer may fuse what we keep apart, and the other way round."""

    ours: nn.Parameter
    peers: nn.Parameter
    our_rows: slice = WHOLE
    peer_rows: slice = WHOLE

    def of_ours(self, tensor: Tensor) -> Tensor:
        return tensor[self.our_rows]

    def of_peers(self, tensor: Tensor) -> Tensor:
        # A peer's single vector may be a table of one row here.
        return tensor[self.peer_rows].reshape(self.of_ours(self.ours).shape)


def tie_all(ours: nn.Module, peers: nn.Module, names: Iterable[str] = ("weight", "bias")) -> list[Tie]:
    """Two modules whose parameters have the same names: nn.Linear, LayerNorm."""
    return [Tie(getattr(ours, name), getattr(peers, name)) for name in names]


def tie_halves(upper: nn.Module, lower: nn.Module, fused: nn.Linear) -> list[Tie]:
    """A peer's fused matrix: our `upper` is its first half of rows, our `lower` its second."""
    half = len(fused.weight) // 2
    ties = []
    for ours, rows in ((upper, slice(0, half)), (lower, slice(half, None))):
        ties += [Tie(getattr(ours, n), getattr(fused, n), peer_rows=rows) for n in ("weight", "bias")]
    return ties


@torch.no_grad()
def redraw(module: nn.Module, seed: int) -> None:
    """Every parameter, norms and biases too: at birth many are 0 or 1, and a swap of two would go unseen."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.normal_(0.0, 0.4, generator=generator)


@torch.no_grad()
def copy_from_peer(ties: list[Tie], ours: nn.Module, peer: nn.Module) -> None:
    assert_every_entry_is_tied(ties, ours, peer)
    for tie in ties:
        tie.of_ours(tie.ours).copy_(tie.of_peers(tie.peers))


def assert_every_entry_is_tied(ties: list[Tie], ours: nn.Module, peer: nn.Module) -> None:
    """Exactly once, on both sides: a weight left out would be compared with nothing."""
    tied: Counter[int] = Counter()
    for tie in ties:
        tied[id(tie.ours)] += tie.of_ours(tie.ours).numel()
        tied[id(tie.peers)] += tie.of_peers(tie.peers).numel()
    for module in (ours, peer):
        wrong = [name for name, parameter in module.named_parameters() if tied[id(parameter)] != parameter.numel()]
        assert not wrong, f"not tied exactly once: {wrong}"


def assert_same_gradients(ties: list[Tie]) -> None:
    for tie in ties:
        assert tie.ours.grad is not None
        assert tie.peers.grad is not None
        assert_close(tie.of_ours(tie.ours.grad), tie.of_peers(tie.peers.grad))
