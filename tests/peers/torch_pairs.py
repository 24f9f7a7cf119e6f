"""Pairs of models to compare, ours and torch.nn's, in float64, and the tokens and masks they are shown."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from addnorm.models.build import build
from addnorm.models.model import Model
from tests.peers.ties import Tie, copy_from_peer, redraw
from tests.peers.torch_ties import tie_stack

WIDTH, HEADS, HIDDEN, VOCAB = 16, 4, 24, 11
BATCH, LENGTH = 3, 6

PADDINGS: dict[str, Tensor | None] = {
    "all_real": None,
    # torch packs rows padded on the right into a nested tensor; others go another way.
    "right": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]).bool(),
    "holes": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1], [1, 1, 0, 1, 0, 0]]).bool(),
}
"""True = real. The first token is real in all: torch's fast path answers NaN to a row that sees nothing, see
test_empty_rows.py."""


def design(norm_first: bool) -> str:
    return "pre_ln" if norm_first else "post_ln"


def draw_tokens(seed: int = 0, length: int = LENGTH) -> Tensor:
    return torch.randint(VOCAB, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def embed(model: Model, tokens: Tensor) -> Tensor:
    """What enters the stack: positions are left out of these models, so that it is a matter of the table alone."""
    return nn.functional.embedding(tokens, model.embedding.weight) * WIDTH**0.5


def our_model(mode: str, norm_first: bool, activation: str = "relu", **choices: Any) -> Model:
    model = build(
        design(norm_first),
        mode=mode,
        vocab=VOCAB,
        width=WIDTH,
        heads=HEADS,
        hidden=HIDDEN,
        positions="no_positions",
        feed_forward=activation,
        head="no_head",
        dtype=torch.float64,
        **choices,
    )
    redraw(model, seed=1)
    return model


def peer_layer(norm_first: bool, activation: str) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )


def one_stack(norm_first: bool, activation: str, causal: bool) -> tuple[Model, nn.TransformerEncoder, list[Tie]]:
    """A causal nn.TransformerEncoder is our decoder. Ours closes Pre-LN with a norm; the peer must be handed one."""
    ours = our_model("decoder" if causal else "encoder", norm_first, activation, depth=2)
    norm = nn.LayerNorm(WIDTH, dtype=torch.float64) if norm_first else None
    peer = nn.TransformerEncoder(peer_layer(norm_first, activation), 2, norm=norm)
    redraw(peer, seed=2)
    ties = tie_stack(ours.stack, peer)
    copy_from_peer(ties, ours.stack, peer)
    return ours, peer, ties


def two_stacks(norm_first: bool, activation: str) -> tuple[Model, nn.Transformer, list[Tie]]:
    """Unequal depths, so that encoder and decoder cannot be taken for each other."""
    ours = our_model("encoder_decoder", norm_first, activation, depth=2, decoder_depth=3)
    peer = nn.Transformer(
        WIDTH, HEADS, 2, 3, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    redraw(peer, seed=2)
    ties = []
    for stack, theirs in ((ours.encoder, peer.encoder), (ours.decoder, peer.decoder)):
        some = tie_stack(stack, theirs)
        copy_from_peer(some, stack, theirs if norm_first else theirs.layers)
        ties += some
    return ours, peer, ties


def hidden_from(padding: Tensor | None) -> Tensor | None:
    """torch's convention is the opposite of ours: True = not to be seen."""
    return None if padding is None else ~padding


def triangle(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def real_rows(y: Tensor, padding: Tensor | None) -> Tensor:
    return y.flatten(0, 1) if padding is None else y[padding]


def projected(y: Tensor) -> Tensor:
    """A loss that every feature of every row has a different say in: a plain sum has no gradient through a norm."""
    return (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(3), dtype=y.dtype)).sum()
