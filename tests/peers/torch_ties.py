"""The same Transformer twice: ours, and torch.nn's with the same weights."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from addnorm.models.block import Block
from addnorm.models.stack import Stack
from tests.peers.ties import Tie, tie_all

Layer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def tie_attention(ours: nn.Module, peer: nn.MultiheadAttention) -> list[Tie]:
    """torch keeps query, key and value in one matrix, in this order."""
    width = peer.embed_dim
    ties = tie_all(ours.output, peer.out_proj)
    for role, (start, stop) in zip(("query", "key", "value"), pairwise((0, width, 2 * width, 3 * width)), strict=True):
        linear, rows = getattr(ours, role), slice(start, stop)
        ties += [Tie(linear.weight, peer.in_proj_weight, peer_rows=rows)]
        ties += [Tie(linear.bias, peer.in_proj_bias, peer_rows=rows)]
    return ties


def tie_layer(block: Block, layer: Layer) -> list[Tie]:
    ties = tie_attention(block.sublayers["self_attention"], layer.self_attn)
    if isinstance(layer, nn.TransformerDecoderLayer):
        ties += tie_attention(block.sublayers["cross_attention"], layer.multihead_attn)
    ties += tie_all(block.sublayers["feed_forward"].up, layer.linear1)
    ties += tie_all(block.sublayers["feed_forward"].down, layer.linear2)
    for number, connection in enumerate(block.connections.values(), start=1):
        place = "before" if layer.norm_first else "after"
        ties += tie_all(getattr(connection, place), getattr(layer, f"norm{number}"))
    return ties


def tie_stack(stack: Stack, peer: nn.TransformerEncoder | nn.TransformerDecoder) -> list[Tie]:
    """The peer's last norm is our closing norm. Post-LN has none: there it stays the peer's alone."""
    ties = [tie for ours, theirs in zip(stack.blocks, peer.layers, strict=True) for tie in tie_layer(ours, theirs)]
    if isinstance(stack.close, nn.Module):
        ties += tie_all(stack.close, peer.norm)
    return ties
