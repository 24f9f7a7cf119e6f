"""Options that cannot both be had: the error names the two, and what to do."""

import pytest

from addnorm.arrangements import ByLayer, ReZero
from addnorm.layers.attention import Attention
from addnorm.layers.feed_forward import FeedForward
from addnorm.layers.layouts import AttentionOnly, SideBySide
from addnorm.layers.masks import FullyVisible
from addnorm.layers.parallel import Parallel
from addnorm.layers.positions import Relative
from addnorm.layers.sublayer import Repeating
from addnorm.models import DecoderSpec, EncoderDecoderSpec, FTTransformerSpec, TabTransformerSpec, design, make_spec
from addnorm.spec import SpecError
from tests.models.small import SIZES


def refusal(name="pre_ln", **options):
    with pytest.raises(SpecError) as caught:
        make_spec(name, **options)
    return str(caught.value)


# -- unknown names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "nearest"),
    [
        ("pre_lm", {}, "unknown design or bundle 'pre_lm': did you mean 'pre_ln'"),
        ("gpt", {}, "did you mean 'gpt2'"),
        ("B2T", {}, "Known: admin"),
        ("pre_ln", {"mode": "decode"}, "unknown mode 'decode': did you mean 'decoder'"),
        ("pre_ln", {"feed_forward": "swiglue"}, "unknown feed_forward 'swiglue': did you mean 'swiglu'"),
        ("pre_ln", {"norm": "layernorm"}, "unknown norm 'layernorm': did you mean 'layer_norm'"),
        ("pre_ln", {"positions": "rotery"}, "unknown positions 'rotery': did you mean 'rotary'"),
        ("pre_ln", {"head": "tied"}, "unknown head 'tied': did you mean 'tied_head'"),
        ("pre_ln", {"init": "xavier"}, "unknown init 'xavier': did you mean 'xavier_normal'"),
        ("pre_ln", {"embedding": "fixnorm"}, "did you mean 'fix_norm'"),
        ("pre_ln", {"mode": "encoder_decoder", "decoder_design": "postln"}, "unknown design 'postln': did you mean"),
    ],
    ids=str,
)
def test_an_unknown_name_gives_the_nearest(name, options, nearest):
    assert nearest in refusal(name, **options)


def test_a_design_by_itself_knows_its_neighbours():
    with pytest.raises(SpecError, match=r"unknown design 'dlcl_pst': did you mean 'dlcl_post'"):
        design("dlcl_pst")


# -- two options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "both"),
    [
        ("bert", {"mode": "decoder"}, ("mode=decoder", "bert is a model of kind encoder", "drop mode")),
        (DecoderSpec(**SIZES), {"mode": "encoder"}, ("mode=encoder", "kind decoder", "drop mode")),
        ("rezero", {"norm": "rms_norm"}, ("norm=rms_norm", "rezero has no norm", "drop one of them")),
        ("fixup", {"norm": "rms_norm"}, ("norm=rms_norm", "fixup has no norm", "drop one of them")),
        ("pre_ln", {"decoder_depth": 3}, ("decoder_depth", "a model of kind decoder", "leave it out")),
        (
            "pre_ln",
            {"mode": "encoder", "decoder_design": "post_ln"},
            ("decoder_design", "a model of kind encoder", "leave it out"),
        ),
        ("ft_transformer", {"vocab": 9}, ("vocab", "a model of kind ft_transformer", "leave it out")),
        ("ft_transformer", {"positions": "rotary"}, ("positions", "a model of kind ft_transformer", "leave it out")),
        (
            "pre_ln",
            {"hidden": 8, "feed_forward": Attention()},
            ("hidden=8", "feed-forward"),
        ),
        ("all_attention", {"hidden": 8}, ("hidden", "attention_only")),
        ("all_attention", {"feed_forward": "relu"}, ("feed_forward", "attention_only")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_both_are_named(name, options, both):
    said = refusal(name, **options)
    for words in both:
        assert words in said


def test_a_decoder_wants_a_causal_rule():
    with pytest.raises(SpecError, match=r"wanted a causal visibility, came fully_visible; use causal or prefix_causal"):
        DecoderSpec(visibility=FullyVisible(), **SIZES)


def test_two_streams_of_different_forms_cannot_follow_each_other():
    with pytest.raises(SpecError, match=r"first=b2t with \(x, bottom\) and rest=pre_ln with x; choose two that agree"):
        ByLayer(first="b2t", rest="pre_ln")


def test_side_by_side_and_an_encoder_decoder():
    with pytest.raises(SpecError, match=r"side_by_side: no form with cross-attention is known; use one_by_one"):
        EncoderDecoderSpec(layout=SideBySide(), **SIZES)


def test_one_table_and_two_gains():
    said = r"born times 0\.4855 and the decoder's times 0\.408.*; make depths and designs agree or .* source_vocab"
    with pytest.raises(SpecError, match=said):
        make_spec("t_fixup", mode="encoder_decoder", **(SIZES | {"decoder_depth": 4}))
    spec = EncoderDecoderSpec(arrangement="t_fixup", decoder_depth=4, source_vocab=11, **SIZES)
    assert spec.build().parameter_count() > 0


def test_tables_without_columns():
    with pytest.raises(SpecError, match=r"wanted at least one column, came none; set numeric or categories"):
        FTTransformerSpec(numeric=0)
    with pytest.raises(SpecError, match=r"reads categorical columns, came none; set categories, or use ft_transformer"):
        TabTransformerSpec(categories=())


# -- whatever validates, builds ----------------------------------------------------------------------------

WITHOUT_CROSS_ATTENTION = {
    "parallel": Parallel(parts=(Attention(), FeedForward())),
    "feed-forward": FeedForward(),
    "one of a pattern": Repeating(pattern=(Attention(), FeedForward())),
}


@pytest.mark.parametrize("name", WITHOUT_CROSS_ATTENTION)
def test_content_without_a_cross_attention_form_is_refused_before_it_is_built(name):
    with pytest.raises(SpecError, match="no cross-attention form"):
        EncoderDecoderSpec(attention=WITHOUT_CROSS_ATTENTION[name], **SIZES)


@pytest.mark.parametrize("kind", [DecoderSpec, EncoderDecoderSpec], ids=lambda kind: kind.kind)
def test_buckets_that_do_not_fit_one_way_are_refused_before_they_are_built(kind):
    """A causal stack spends all buckets on one direction: 16 exact ones leave nothing below distance 10."""
    with pytest.raises(SpecError, match="wanted max_distance above the 16 exact buckets, came 10"):
        kind(positions=Relative(buckets=32, max_distance=10), **SIZES)


def test_a_design_that_has_a_norm_in_one_half_may_have_it_replaced():
    spec = make_spec(ByLayer(first="pre_ln", rest=ReZero()), norm="rms_norm")
    assert spec.arrangement.first.norm.kind == "rms_norm"
    assert spec.arrangement.rest == ReZero()


def test_an_attention_only_layout_builds_without_a_feed_forward():
    model = DecoderSpec(layout=AttentionOnly(), **SIZES).build()
    assert not any("feed_forward" in name for name, _ in model.named_parameters())
