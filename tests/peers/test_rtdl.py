"""Our FT-Transformer is the authors' (rtdl_revisiting_models 0.0.2), weight for weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from addnorm.models.ft_transformer import FTTransformer, FTTransformerSpec
from tests.peers.ties import Tie, assert_same_gradients, copy_from_peer, redraw, tie_all, tie_halves
from tests.tolerances import assert_close

rtdl = pytest.importorskip("rtdl_revisiting_models")

ADULT_CATEGORIES = (9, 16, 7, 15, 6, 5, 2, 42)
TABLES: dict[str, tuple[int, tuple[int, ...]]] = {
    "numeric": (5, ()),
    "categorical": (0, (3, 7, 2)),
    "both": (4, (3, 7)),
}

every_table = pytest.mark.parametrize("table", TABLES)


def ours_of(numeric: int, categories: tuple[int, ...], **fields: Any) -> FTTransformer:
    return FTTransformerSpec(numeric=numeric, categories=categories).replace(fields).build()


def peer_of(numeric: int, categories: tuple[int, ...], **changes: Any) -> nn.Module:
    arguments = {**rtdl.FTTransformer.get_default_kwargs(), "d_out": 1, **changes}
    return rtdl.FTTransformer(n_cont_features=numeric, cat_cardinalities=list(categories), **arguments)


def tie_tokenizer(ours: FTTransformer, peer: nn.Module) -> list[Tie]:
    tokenizer, numeric = ours.tokenizer, ours.spec.numeric
    ties = [Tie(tokenizer.cls, peer.cls_embedding.weight)]
    if peer.cont_embeddings is not None:
        ties += [Tie(tokenizer.slope, peer.cont_embeddings.weight)]
        ties += [Tie(tokenizer.bias, peer.cont_embeddings.bias, our_rows=slice(0, numeric))]
    if peer.cat_embeddings is not None:
        ties += [Tie(tokenizer.bias, peer.cat_embeddings.bias, our_rows=slice(numeric, None))]
        start = 0
        for embedding in peer.cat_embeddings.embeddings:
            stop = start + embedding.num_embeddings
            ties += [Tie(tokenizer.table, embedding.weight, our_rows=slice(start, stop))]
            start = stop
    return ties


def tie_block(block: nn.Module, peer: nn.ModuleDict) -> list[Tie]:
    attention, feed_forward = block.sublayers["self_attention"], block.sublayers["feed_forward"]
    ties: list[Tie] = []
    for role, theirs in (("query", "W_q"), ("key", "W_k"), ("value", "W_v"), ("output", "W_out")):
        ties += tie_all(getattr(attention, role), getattr(peer["attention"], theirs))
    # ReGLU is a * relu(b), a above b in the peer's one matrix: a is our `up`, b our `gate`.
    ties += tie_halves(feed_forward.up, feed_forward.gate, peer["ffn"].linear1)
    ties += tie_all(feed_forward.down, peer["ffn"].linear2)
    ties += tie_all(block.connections["feed_forward"].before, peer["ffn_normalization"])
    if "attention_normalization" in peer:
        ties += tie_all(block.connections["self_attention"].before, peer["attention_normalization"])
    return ties


def tie_models(ours: FTTransformer, peer: nn.Module) -> list[Tie]:
    ties = tie_tokenizer(ours, peer)
    for block, theirs in zip(ours.stack.blocks, peer.backbone.blocks, strict=True):
        ties += tie_block(block, theirs)
    return (
        ties
        + tie_all(ours.stack.close, peer.backbone.output.normalization)
        + tie_all(ours.head, peer.backbone.output.linear)
    )


def same_models(table: str) -> tuple[FTTransformer, nn.Module, list[Tie]]:
    """Dropout off: two draws cannot be the same draw."""
    ours = ours_of(*TABLES[table], outputs=3, **{"dropout.attention": 0.0, "dropout.hidden": 0.0}).double()
    peer = peer_of(*TABLES[table], d_out=3, attention_dropout=0.0, ffn_dropout=0.0).double()
    redraw(peer, seed=1)
    ties = tie_models(ours, peer)
    copy_from_peer(ties, ours, peer)
    return ours, peer, ties


def draw_columns(table: str, rows: int = 5) -> tuple[Tensor | None, Tensor | None]:
    numeric, categories = TABLES[table]
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(rows, numeric, generator=generator, dtype=torch.float64) if numeric else None
    columns = [torch.randint(count, (rows,), generator=generator) for count in categories]
    return x, torch.stack(columns, dim=1) if columns else None


@every_table
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_same_output(table: str, training: bool) -> None:
    ours, peer, _ = same_models(table)
    columns = draw_columns(table)
    with torch.no_grad():
        wanted, came = peer.train(training)(*columns), ours.train(training)(*columns)
    assert_close(came, wanted)


@every_table
def test_the_same_gradients(table: str) -> None:
    ours, peer, ties = same_models(table)
    columns = draw_columns(table)
    direction = torch.randn(5, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (peer(*columns) * direction).sum().backward()
    (ours(*columns) * direction).sum().backward()
    assert_same_gradients(ties)


@pytest.mark.parametrize(
    ("numeric", "categories", "hidden", "count"),
    [
        pytest.param(8, (), None, 894_913, id="california_housing"),
        pytest.param(6, ADULT_CATEGORIES, None, 915_265, id="adult"),
        pytest.param(8, (), 255, 893_179, id="california_housing_hidden_255"),
        pytest.param(6, ADULT_CATEGORIES, 255, 913_531, id="adult_hidden_255"),
    ],
)
def test_the_same_number_of_parameters(
    numeric: int, categories: tuple[int, ...], hidden: int | None, count: int
) -> None:
    ours = ours_of(numeric, categories, **({} if hidden is None else {"feed_forward.hidden": hidden}))
    theirs = {} if hidden is None else {"ffn_d_hidden": hidden, "ffn_d_hidden_multiplier": None}
    peer = peer_of(numeric, categories, **theirs)
    assert ours.parameter_count() == count
    assert sum(parameter.numel() for parameter in peer.parameters()) == count


def test_the_same_default_dropout() -> None:
    """The defaults are the authors' for three blocks; parameter counts cannot see a rate."""
    default, ours = rtdl.FTTransformer.get_default_kwargs(), FTTransformerSpec()
    assert ours.dropout.attention == default["attention_dropout"]
    assert ours.dropout.hidden == default["ffn_dropout"]
    assert ours.dropout.branch == default["residual_dropout"]
    assert (ours.width, ours.heads, ours.depth) == (
        default["d_block"],
        default["attention_n_heads"],
        default["n_blocks"],
    )
