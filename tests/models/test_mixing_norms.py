"""Norms that average over positions: studied in encoders, refused where a token must not see what follows it."""

import pytest
import torch

from addnorm.arrangements import ByLayer, PostLN, Rescaled
from addnorm.layers.attention import Attention
from addnorm.layers.embeddings import TokenEmbedding
from addnorm.layers.masks import PrefixCausal
from addnorm.layers.norms import BatchNorm, InstanceNorm
from addnorm.layers.sublayer import Repeating
from addnorm.models import DecoderSpec, EncoderDecoderSpec, EncoderSpec, FTTransformerSpec
from addnorm.spec import SpecError
from tests.models.small import SIZES, TOKENS, assert_lives

every_mixing_norm = pytest.mark.parametrize("norm", [BatchNorm(), InstanceNorm()], ids=lambda norm: norm.kind)


def places(norm):
    """Everywhere a norm may stand in a model of tokens."""
    return {
        "design": {"arrangement": PostLN(norm=norm)},
        "design inside a design": {"arrangement": Rescaled(inner=ByLayer(rest=PostLN(norm=norm)))},
        "query and key": {"attention": Attention(query_key_norm=norm)},
        "one of a pattern": {"attention": Repeating(pattern=(Attention(), Attention(query_key_norm=norm)))},
        "embedding": {"embedding": TokenEmbedding(norm=norm)},
    }


every_place = pytest.mark.parametrize("place", places(BatchNorm()))


@every_place
@every_mixing_norm
def test_a_decoder_refuses_and_says_why(norm, place):
    said = f"a decoder is causal, but {norm.kind} averages over positions: a token would see the tokens after it"
    with pytest.raises(SpecError, match=said):
        DecoderSpec(**places(norm)[place], **SIZES)


@every_place
@every_mixing_norm
def test_an_encoder_decoder_refuses_for_its_decoder(norm, place):
    """The embedding's norm stands before the decoder as well."""
    said = f"decoder is causal, but {norm.kind} averages over positions.*use layer_norm, rms_norm or scale_norm"
    with pytest.raises(SpecError, match=said):
        EncoderDecoderSpec(**places(norm)[place], **SIZES)


@every_mixing_norm
def test_a_prefix_does_not_make_it_right(norm):
    with pytest.raises(SpecError, match="averages over positions"):
        DecoderSpec(arrangement=PostLN(norm=norm), visibility=PrefixCausal(), **SIZES)


@every_place
@every_mixing_norm
def test_an_encoder_accepts(norm, place):
    model = EncoderSpec(**places(norm)[place], **SIZES).build()
    assert_lives(model)
    model.eval()
    assert_lives(model)


@every_mixing_norm
def test_the_encoder_s_side_of_an_encoder_decoder_accepts(norm):
    model = EncoderDecoderSpec(arrangement=PostLN(norm=norm), decoder_arrangement=PostLN(), **SIZES).build()
    assert_lives(model)


@every_mixing_norm
def test_columns_accept(norm):
    assert_lives(FTTransformerSpec(arrangement=PostLN(norm=norm), width=8, heads=2, depth=1).build())


def test_batch_norm_forgets_the_batch_when_evaluating():
    model = EncoderSpec(arrangement=PostLN(norm=BatchNorm()), **SIZES).build()
    for _ in range(3):
        model(TOKENS)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS)[:1], model(TOKENS[:1]))
