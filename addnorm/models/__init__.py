"""Models of every shape over one block. Read `block.py` first."""

from addnorm.models.build import build, design, make_spec
from addnorm.models.bundles import BUNDLES
from addnorm.models.decoder import Decoder, DecoderSpec
from addnorm.models.encoder import Encoder, EncoderSpec
from addnorm.models.encoder_decoder import EncoderDecoder, EncoderDecoderSpec
from addnorm.models.ft_transformer import FTTransformer, FTTransformerSpec
from addnorm.models.generate import Beam, Generated, Greedy, Sample, Search
from addnorm.models.model import Model, ModelSpec
from addnorm.models.tab_transformer import TabTransformer, TabTransformerSpec

__all__ = [
    "BUNDLES",
    "Beam",
    "Decoder",
    "DecoderSpec",
    "Encoder",
    "EncoderDecoder",
    "EncoderDecoderSpec",
    "EncoderSpec",
    "FTTransformer",
    "FTTransformerSpec",
    "Generated",
    "Greedy",
    "Model",
    "ModelSpec",
    "Sample",
    "Search",
    "TabTransformer",
    "TabTransformerSpec",
    "build",
    "design",
    "make_spec",
]
