"""A sequence of nothing but padding, in every kind of attention: finite, learning, and felt by nobody else."""

import pytest
import torch

from addnorm.layers.attention import Attention, WrittenOut
from addnorm.layers.masks import PrefixCausal
from addnorm.layers.norms import RMSNorm
from addnorm.models import DecoderSpec, EncoderDecoderSpec, EncoderSpec
from tests.models.small import SIZES, SOURCE, TOKENS, assert_lives
from tests.tolerances import assert_close

REAL = torch.tensor([[True, True, True, False], [False] * 4])
KINDS = {
    "written out": {"attention": Attention(core=WrittenOut(cap=5.0))},
    "windowed": {"attention": Attention(window=1)},
    "grouped": {"attention": Attention(kv_heads=1)},
    "persistent": {"attention": Attention(persistent=2)},
    "persistent, biased": {"attention": Attention(persistent=2), "positions": "relative"},
    "normed": {"attention": Attention(query_key_norm=RMSNorm())},
    "relative": {"positions": "relative"},
    "alibi": {"positions": "alibi"},
    "rotary": {"positions": "rotary"},
    "learned": {"positions": "learned"},
    "index": {"positions": "index"},
}

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("spec", [EncoderSpec, DecoderSpec], ids=lambda spec: spec.kind)
def test_one_stack(spec, kind):
    model = spec(**KINDS[kind], **SIZES).build().double()
    came = assert_lives(model, TOKENS, REAL)
    assert_close(came[0, :3], model(TOKENS[:1, :3])[0])


@every_kind
def test_both_sides_of_an_encoder_decoder(kind):
    model = EncoderDecoderSpec(**KINDS[kind], **SIZES).build().double()
    came = assert_lives(model, SOURCE, TOKENS, REAL[:, :3], REAL)
    assert_close(came[0, :3], model(SOURCE[:1], TOKENS[:1, :3])[0])


def test_prefix_causal():
    model = DecoderSpec(visibility=PrefixCausal(), **SIZES).build().double()
    prefix = torch.tensor([2, 0])
    came = model(TOKENS, REAL, prefix=prefix)
    assert came.isfinite().all()
    assert_close(came[0, :3], model(TOKENS[:1, :3], prefix=prefix[:1])[0])


@every_kind
def test_what_stands_under_the_padding_is_never_read(kind):
    """Other tokens under the mask of the source change nothing at all in the answer."""
    model = EncoderDecoderSpec(**KINDS[kind], **SIZES).build().double()
    masks = (REAL[:, :3], torch.ones_like(REAL))
    other = torch.where(REAL[:, :3], SOURCE, 1)
    assert_close(model(SOURCE, TOKENS, *masks), model(other, TOKENS, *masks))
