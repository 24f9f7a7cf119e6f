"""The one-line door: every keyword reaches its place."""

import pytest
import torch

from addnorm.arrangements import B2T, CATALOGUE, ByLayer, PostLN, PreLN, Rescaled
from addnorm.init import Normal
from addnorm.layers.attention import Attention
from addnorm.layers.dropout import Dropout
from addnorm.layers.embeddings import FixNorm, LinearHead, TokenEmbedding
from addnorm.layers.feed_forward import FeedForward, GatedFeedForward
from addnorm.layers.fixup import FixupFeedForward
from addnorm.layers.norms import LayerNorm, NoNorm, RMSNorm
from addnorm.layers.positions import Relative, Rotary
from addnorm.models import BUNDLES, Decoder, DecoderSpec, Encoder, EncoderDecoder, EncoderSpec, build, make_spec
from tests.models.small import SIZES, TOKENS


@pytest.mark.parametrize(
    ("asked", "path", "value"),
    [
        ({"vocab": 13}, "vocab", 13),
        ({"width": 24}, "width", 24),
        ({"heads": 4}, "heads", 4),
        ({"depth": 3}, "depth", 3),
        ({"max_length": 9}, "max_length", 9),
        ({"hidden": 17}, "feed_forward.hidden", 17),
        ({"hidden": 17, "feed_forward": "swiglu"}, "feed_forward", GatedFeedForward(activation="silu", hidden=17)),
        ({"hidden": 17, "feed_forward": FixupFeedForward()}, "feed_forward", FixupFeedForward(hidden=17)),
        ({"decoder_depth": 5}, "decoder_depth", 5),
        ({"decoder_design": "post_ln"}, "decoder_arrangement", PostLN()),
        ({"decoder_design": B2T()}, "decoder_arrangement", B2T()),
        ({"norm": "rms_norm"}, "arrangement", PreLN(norm=RMSNorm())),
        ({"norm": RMSNorm(eps=0.5)}, "arrangement.norm.eps", 0.5),
        ({"norm": "rms_norm", "decoder_design": "post_ln"}, "decoder_arrangement", PostLN(norm=RMSNorm())),
        ({"positions": "rotary"}, "positions", Rotary()),
        ({"positions": Relative(buckets=8)}, "positions.buckets", 8),
        ({"attention": Attention(kv_heads=1)}, "attention.kv_heads", 1),
        ({"feed_forward": "geglu_tanh"}, "feed_forward", GatedFeedForward(activation="gelu_tanh")),
        ({"feed_forward": FeedForward(ratio=2.0)}, "feed_forward.ratio", 2.0),
        ({"embedding": "fix_norm"}, "embedding", FixNorm()),
        ({"embedding": TokenEmbedding(types=3)}, "embedding.types", 3),
        ({"head": "linear_head"}, "head", LinearHead()),
        ({"init": "normal"}, "init", Normal()),
        ({"init": Normal(std=0.3)}, "init.std", 0.3),
        ({"dropout": 0.25}, "dropout", Dropout.everywhere(0.25)),
        ({"dropout": 0}, "dropout", Dropout()),
        ({"dropout": Dropout(hidden=0.5)}, "dropout.hidden", 0.5),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_each_keyword_reaches_its_place(asked, path, value):
    spec = make_spec("pre_ln", mode="encoder_decoder", **(SIZES | asked))
    found = spec
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


def test_what_is_not_asked_for_stays():
    assert make_spec("pre_ln", mode="decoder") == DecoderSpec()
    assert make_spec("bert") == BUNDLES["bert"]


@pytest.mark.parametrize(
    ("mode", "kind"), [("encoder", Encoder), ("decoder", Decoder), ("encoder_decoder", EncoderDecoder), (None, Decoder)]
)
def test_modes(mode, kind):
    assert type(build("pre_ln", mode=mode, **SIZES)) is kind


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_design_by_name_is_the_catalogue_s(name):
    assert make_spec(name).arrangement == CATALOGUE[name]


def test_a_design_as_an_object():
    assert make_spec(B2T(depth_power=0.5)).arrangement.depth_power == 0.5


def test_a_spec_of_one_s_own():
    spec = EncoderSpec(**SIZES)
    assert make_spec(spec, mode="encoder", depth=1) == spec.replace({"depth": 1})


def test_a_bundle_keeps_what_is_its_own():
    spec = make_spec("gpt2", depth=1)
    assert (spec.width, spec.depth, spec.arrangement) == (768, 1, Rescaled(inner=PreLN()))


def test_a_norm_is_replaced_in_every_place():
    spec = make_spec(Rescaled(inner=ByLayer(first=PostLN(), rest=PreLN(first_norm=NoNorm()))), norm="rms_norm")
    norm = RMSNorm()
    assert spec.arrangement == Rescaled(
        inner=ByLayer(first=PostLN(norm=norm), rest=PreLN(norm=norm, first_norm=NoNorm()))
    )


def test_every_norm_of_a_design_is_replaced():
    spec = make_spec("resi_dual", norm="rms_norm")
    assert not any(isinstance(part, LayerNorm) for part in spec.arrangement.walk())


def test_seed_and_dtype():
    one, two = (build("pre_ln", seed=seed, dtype=torch.bfloat16, **SIZES) for seed in (1, 2))
    assert one.embedding.weight.dtype == torch.bfloat16
    assert not torch.equal(one.embedding.weight, two.embedding.weight)
    assert torch.equal(one.embedding.weight, make_spec("pre_ln", **SIZES).build(1).embedding.weight.bfloat16())


def test_device():
    assert build("pre_ln", device="meta", **SIZES).embedding.weight.is_meta


def test_the_door_and_the_spec_build_one_model():
    ours, theirs = build("b2t", **SIZES), DecoderSpec(arrangement=B2T(), **SIZES).build()
    assert torch.equal(ours(TOKENS), theirs(TOKENS))
