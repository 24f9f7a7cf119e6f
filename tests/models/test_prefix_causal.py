"""Prefix-causal: the prefix is read as an encoder reads, the rest as a decoder."""

import pytest
import torch

from addnorm.layers.attention import Attention
from addnorm.layers.masks import PrefixCausal
from addnorm.models import DecoderSpec, EncoderSpec
from tests.models.small import SIZES, TOKENS
from tests.tolerances import assert_close

PREFIXED = DecoderSpec(visibility=PrefixCausal(), head="no_head", **SIZES)


def influence(model, tokens, **options):
    """(T, T): does the embedding of token s have a say in the output at t? For the first sequence."""
    kept = []
    model.embedding.register_forward_hook(lambda module, args, x: kept.append(x))
    y = model(tokens, **options)
    rows = [torch.autograd.grad(y[0, t, 0], kept[0], retain_graph=True)[0][0] for t in range(tokens.shape[1])]
    return torch.stack([row.abs().sum(-1) > 0 for row in rows])


@pytest.mark.parametrize("prefix", [0, 1, 2, 4])
def test_who_feels_whom(prefix):
    came = influence(PREFIXED.build().double(), TOKENS, prefix=torch.tensor([prefix, 1]))
    expected = torch.tensor([[s <= t or s < prefix for s in range(4)] for t in range(4)])
    assert torch.equal(came, expected)


def test_a_prefix_of_everything_is_an_encoder():
    encoder = EncoderSpec(**SIZES).build().double()
    model = PREFIXED.build().double()
    assert_close(model(TOKENS, prefix=torch.tensor([4, 4])), encoder(TOKENS))


def test_no_prefix_is_a_decoder():
    decoder = DecoderSpec(head="no_head", **SIZES).build().double()
    assert_close(PREFIXED.build().double()(TOKENS, prefix=torch.tensor([0, 0])), decoder(TOKENS))


@pytest.mark.parametrize("attention", [Attention(), Attention(window=2), Attention(persistent=2)], ids=str)
def test_padding_in_front_moves_nothing(attention):
    """The prefix counts real tokens."""
    model = PREFIXED.replace({"attention": attention}).build().double()
    prefix = torch.tensor([2, 3])
    padded = torch.cat((torch.zeros(2, 2, dtype=torch.long), TOKENS), dim=1)
    real = torch.arange(6).expand(2, -1) >= 2
    assert_close(model(padded, real, prefix=prefix)[:, 2:], model(TOKENS, prefix=prefix))


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        (None, r"prefix_causal, and wants prefix=\(batch,\) lengths, came none"),
        (torch.tensor([1]), r"wanted 2 integer lengths, came torch.int64 of shape \(1,\)"),
        (torch.tensor([1.0, 2.0]), "wanted 2 integer lengths, came torch.float32"),
        (torch.tensor([[1, 2]]), r"came torch.int64 of shape \(1, 2\)"),
    ],
    ids=["none", "too few", "floats", "two dimensions"],
)
def test_a_wrong_prefix(prefix, said):
    with pytest.raises(ValueError, match=said):
        PREFIXED.build()(TOKENS, prefix=prefix)


def test_a_prefix_for_a_model_that_has_none():
    with pytest.raises(ValueError, match="came lengths, but this model is causal; leave them out"):
        DecoderSpec(**SIZES).build()(TOKENS, prefix=torch.tensor([1, 1]))
