"""A design for the encoder, another for the decoder: each side is what it would be alone."""

import pytest
import torch

from addnorm.arrangements import CATALOGUE, Rescaled
from addnorm.models import EncoderDecoderSpec, make_spec
from tests.models.small import SIZES, SOURCE, TOKENS, assert_lives

PAIRS = [("post_ln", "pre_ln"), ("b2t", "dlcl"), ("resi_dual", "hyper_connections"), ("rezero", "admin")]


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_two_designs_live_together(encoder, decoder):
    model = make_spec(encoder, mode="encoder_decoder", decoder_design=decoder, **SIZES).build()
    assert_lives(model)
    assert model.spec.designs() == {"encoder": CATALOGUE[encoder], "decoder": CATALOGUE[decoder]}


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_each_side_is_the_design_s_own(encoder, decoder):
    """The encoder of a mixed model is the encoder of a plain one, to the last bit; its decoder too."""
    mixed, first, second = (
        make_spec(name, mode="encoder_decoder", decoder_design=other, **SIZES).build()
        for name, other in ((encoder, decoder), (encoder, None), (decoder, None))
    )
    with torch.no_grad():
        memory = mixed.encode(SOURCE)
        assert torch.equal(memory, first.encode(SOURCE))
        assert torch.equal(mixed.decode(TOKENS, memory), second.decode(TOKENS, memory))


def test_each_side_has_its_own_depth():
    model = make_spec("pre_ln", mode="encoder_decoder", **(SIZES | {"depth": 1, "decoder_depth": 3})).build()
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (1, 3)
    sites = {(site.side, site.depth, site.other_depth) for _, site, _ in model.sites()}
    assert sites == {("encoder", 1, 3), ("decoder", 3, 1)}


def test_each_design_scales_its_own_side():
    plain = EncoderDecoderSpec(**SIZES).build()
    scaled = EncoderDecoderSpec(decoder_arrangement=Rescaled(inner="pre_ln"), **SIZES).build()
    mine, other = dict(scaled.named_parameters()), dict(plain.named_parameters())
    changed = {name for name in mine if not torch.equal(mine[name], other[name])}
    assert changed
    assert all(name.startswith("decoder.") and ("output" in name or "down" in name) for name in changed)
