"""The public names: what a release promises to keep."""

from importlib import import_module
from importlib.metadata import version

import pytest

import addnorm

PROMISED = {
    "addnorm": """
        Arrangement BUNDLES Beam CATALOGUE Connection Greedy Model ModelSpec Sample Site Spec SpecError __version__
        build calibrate check_arrangement initialise make_spec
    """,
    "addnorm.arrangements": """
        Admin Arrangement B2T ByCount ByLayer CATALOGUE Concat Connection DLCL DLCLPost DeepNorm Fixup Gated
        HyperConnections LiteralSum Local NoNormalisation NoSkip PostLN PreLN ReZero Recursion ResPost Rescaled
        ResiDual Sandwich Scaled ScaledPost Site Stream Sublayer TFixup TwoResidual VarianceSum
    """,
    "addnorm.init": """
        Base Fairseq Kaiming Normal SmallInit T5Init XavierNormal XavierUniform calibrate constrain initialise
    """,
    "addnorm.models": """
        BUNDLES Beam Decoder DecoderSpec Encoder EncoderDecoder EncoderDecoderSpec EncoderSpec FTTransformer
        FTTransformerSpec Generated Greedy Model ModelSpec Sample Search TabTransformer TabTransformerSpec build
        design make_spec
    """,
}
"""Names may join this list. One that leaves it breaks somebody's code: say so in the changelog."""

DESIGNS = """
    admin b2t concat deep_norm dlcl dlcl_post gated hyper_connections mix_ln no_norm no_skip post_ln pre_ln res_post
    resi_dual rezero sandwich scaled t_fixup two_residual
"""
BUNDLES = "all_attention bert fixup ft_transformer gpt2 llama t5 vaswani"

every_module = pytest.mark.parametrize("module", PROMISED)


@every_module
def test_no_promised_name_is_gone(module):
    gone = set(PROMISED[module].split()) - set(import_module(module).__all__)
    assert not gone


@every_module
def test_every_listed_name_is_there(module):
    home = import_module(module)
    for name in home.__all__:
        assert getattr(home, name) is not None, name


@every_module
def test_no_name_is_listed_twice(module):
    names = import_module(module).__all__
    assert len(names) == len(set(names))


def test_no_design_and_no_bundle_is_gone():
    assert set(DESIGNS.split()) <= set(addnorm.CATALOGUE)
    assert set(BUNDLES.split()) <= set(addnorm.BUNDLES)


def test_no_name_is_both_a_design_and_a_bundle():
    """`build(name)` looks in both."""
    assert not set(addnorm.CATALOGUE) & set(addnorm.BUNDLES)


def test_the_lazy_names_are_the_real_ones():
    from addnorm.models.build import build

    assert addnorm.build is build
    assert set(dir(addnorm)) == set(addnorm.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        addnorm.biuld  # noqa: B018


def test_the_version_is_the_installed_one():
    assert addnorm.__version__ == version("addnorm")
