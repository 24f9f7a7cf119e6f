"""Embeddings and heads: what enters the stream, what leaves it, and what they share."""

import pytest
import torch

from addnorm.layers.embeddings import FixNorm, LinearHead, NoHead, TiedHead, TokenEmbedding
from addnorm.layers.norms import LayerNorm
from addnorm.layers.positions import Learned, NoPositions, Sinusoidal
from addnorm.models import make_spec
from tests.layers.stage import draw, redraw
from tests.tolerances import assert_close

VOCAB, WIDTH = 7, 6
TOKENS = torch.tensor([[0, 3, 6, 3], [1, 1, 2, 5]])
AT = torch.arange(4)[None]


def embedding(spec, positions=None, dropout=0.0):
    return redraw(spec.build(VOCAB, WIDTH, 4, positions or NoPositions(), dropout))


def test_rows_of_the_table_times_the_root_of_the_width():
    m = embedding(TokenEmbedding())
    assert_close(m(TOKENS, AT), m.weight[TOKENS] * WIDTH**0.5)


def test_rows_of_the_table_as_they_are():
    m = embedding(TokenEmbedding(times_sqrt_width=False))
    assert torch.equal(m(TOKENS, AT), m.weight[TOKENS])


def test_positions_are_added_after_the_scale():
    m = embedding(TokenEmbedding(), Learned())
    assert_close(m(TOKENS, AT), m.weight[TOKENS] * WIDTH**0.5 + m.positions.weight)


def test_types_are_added_and_type_zero_stands_in_for_none():
    m = embedding(TokenEmbedding(times_sqrt_width=False, types=2))
    types = torch.tensor([[0, 0, 1, 1], [1, 0, 1, 0]])
    assert_close(m(TOKENS, AT, types), m.weight[TOKENS] + m.types[types])
    assert torch.equal(m(TOKENS, AT), m(TOKENS, AT, torch.zeros_like(TOKENS)))


@pytest.mark.parametrize("spec", [TokenEmbedding(), FixNorm()], ids=lambda spec: spec.kind)
def test_types_are_refused_where_there_are_none(spec):
    with pytest.raises(ValueError, match=r"token types were given to .*leave them out"):
        embedding(spec)(TOKENS, AT, torch.zeros_like(TOKENS))


def test_dropout_is_the_last_act():
    m = embedding(TokenEmbedding(norm=LayerNorm()), dropout=0.5)
    torch.manual_seed(0)
    kept = m(TOKENS, AT)
    whole = m.eval()(TOKENS, AT)
    assert_close(kept, torch.where(kept == 0, 0.0, 2 * whole))
    assert 0 < (kept == 0).sum() < kept.numel()


# -- heads -------------------------------------------------------------------------------------------------

X = draw(2, 4, WIDTH, seed=2)


def test_no_head_hands_back_the_features():
    assert NoHead().build(VOCAB, WIDTH)(X, embedding(TokenEmbedding())) is X


@pytest.mark.parametrize("source", [TokenEmbedding(), FixNorm()], ids=lambda spec: spec.kind)
@pytest.mark.parametrize(("over_sqrt_width", "scale"), [(False, 1.0), (True, WIDTH**-0.5)])
def test_a_tied_head_multiplies_by_the_embedding_s_table(source, over_sqrt_width, scale):
    table = embedding(source)
    head = redraw(TiedHead(over_sqrt_width=over_sqrt_width, bias=True).build(VOCAB, WIDTH))
    assert_close(head(X, table), X @ table.table().T * scale + head.bias)


def test_a_linear_head_has_a_matrix_of_its_own():
    head = redraw(LinearHead(bias=True).build(VOCAB, WIDTH))
    assert_close(head(X, embedding(TokenEmbedding())), X @ head.linear.weight.T + head.linear.bias)


# -- tied in a model ---------------------------------------------------------------------------------------

SIZES = {"vocab": 7, "width": 6, "heads": 2, "depth": 1}


@pytest.mark.parametrize("mode", ["decoder", "encoder_decoder"])
def test_a_tied_table_stands_once_in_the_state_dict(mode):
    tied = make_spec("pre_ln", mode=mode, **SIZES).build()
    shaped_like_the_table = [name for name, tensor in tied.state_dict().items() if tensor.shape == (7, 6)]
    assert shaped_like_the_table == ["embedding.weight"]
    assert sum(p.numel() for p in tied.parameters()) == sum(t.numel() for t in tied.state_dict().values())


def test_a_tied_table_learns_from_both_ends():
    """A word that is neither read nor wanted still moves: the head says its logit too."""
    model = make_spec("pre_ln", mode="decoder", **SIZES).build()
    logits = model(torch.tensor([[1, 2]]))
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([2, 3])).backward()
    assert (model.embedding.weight.grad.abs().sum(-1) > 0).all()


def test_a_source_vocabulary_of_its_own_has_a_table_of_its_own():
    spec = make_spec("pre_ln", mode="encoder_decoder", positions=Sinusoidal(), **SIZES).replace({"source_vocab": 5})
    state = spec.build().state_dict()
    assert state["source_embedding.weight"].shape == (5, 6)
    assert state["embedding.weight"].shape == (7, 6)
