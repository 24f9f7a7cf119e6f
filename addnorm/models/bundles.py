"""Bundles: whole models by name. Design, sub-layers, norm, positions, embedding, head and birth, as in their papers.

Sizes are the papers' smallest and meant to be overridden: `build("gpt2", depth=2, width=64, heads=4)`.
"""

from __future__ import annotations

from addnorm.arrangements import Fixup, PostLN, PreLN, Rescaled
from addnorm.init import Normal, T5Init, XavierUniform
from addnorm.layers.attention import Attention
from addnorm.layers.dropout import Dropout
from addnorm.layers.embeddings import LinearHead, NoHead, TiedHead, TokenEmbedding
from addnorm.layers.feed_forward import FeedForward, GatedFeedForward
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from addnorm.layers.layouts import AttentionOnly
from addnorm.layers.norms import LayerNorm, RMSNorm
from addnorm.layers.positions import Learned, Relative, Rotary, Sinusoidal
from addnorm.models.decoder import DecoderSpec
from addnorm.models.encoder import EncoderSpec
from addnorm.models.encoder_decoder import EncoderDecoderSpec
from addnorm.models.ft_transformer import FTTransformerSpec
from addnorm.models.model import ModelSpec

BUNDLES: dict[str, ModelSpec] = {
    # Vaswani et al. 2017, the base model: Post-LN, sinusoids, one table for source, target and head, times sqrt(D).
    "vaswani": EncoderDecoderSpec(
        vocab=37_000,
        arrangement=PostLN(),
        positions=Sinusoidal(),
        init=XavierUniform(),
        dropout=Dropout(embedding=0.1, branch=0.1),
    ),
    # Devlin et al. 2018, BERT base without its pooler: Post-LN, a norm on the embedding, token types, N(0, 0.02).
    "bert": EncoderSpec(
        vocab=30_522,
        width=768,
        heads=12,
        depth=12,
        max_length=512,
        arrangement=PostLN(norm=LayerNorm(eps=1e-12)),
        feed_forward=FeedForward(activation="gelu"),
        positions=Learned(),
        embedding=TokenEmbedding(times_sqrt_width=False, types=2, norm=LayerNorm(eps=1e-12)),
        head=NoHead(),
        init=Normal(std=0.02),
        dropout=Dropout(embedding=0.1, attention=0.1, branch=0.1),
    ),
    # Radford et al. 2019, GPT-2 small: Pre-LN, residual projections born smaller by depth.
    "gpt2": DecoderSpec(
        vocab=50_257,
        width=768,
        heads=12,
        depth=12,
        max_length=1024,
        arrangement=Rescaled(inner=PreLN()),
        feed_forward=FeedForward(activation="gelu_tanh"),
        positions=Learned(),
        embedding=TokenEmbedding(times_sqrt_width=False),
        head=TiedHead(),
        init=Normal(std=0.02),
        dropout=Dropout(embedding=0.1, attention=0.1, branch=0.1),
    ),
    # Raffel et al. 2020, T5 small (v1.0): Pre-RMSNorm, no biases, logits not divided by sqrt(d), relative buckets.
    "t5": EncoderDecoderSpec(
        vocab=32_128,
        arrangement=PreLN(norm=RMSNorm(eps=1e-6)),
        attention=Attention(bias=False, scale=1.0),
        feed_forward=FeedForward(activation="relu", bias=False),
        positions=Relative(buckets=32, max_distance=128),
        embedding=TokenEmbedding(times_sqrt_width=False),
        head=TiedHead(over_sqrt_width=True),
        init=T5Init(),
        dropout=Dropout.everywhere(0.1),
    ),
    # Touvron et al. 2023: Pre-RMSNorm, rotary, SwiGLU, no biases. Size: not 7 B, but what a laptop can hold.
    "llama": DecoderSpec(
        vocab=32_000,
        width=768,
        heads=12,
        depth=12,
        max_length=2048,
        arrangement=PreLN(norm=RMSNorm(eps=1e-6)),
        attention=Attention(bias=False),
        feed_forward=GatedFeedForward(activation="silu", multiple=256),
        positions=Rotary(),
        embedding=TokenEmbedding(times_sqrt_width=False),
        head=LinearHead(),
        init=Normal(std=0.02),
    ),
    # Sukhbaatar et al. 2019: attention over context and persistent memory, no feed-forward. Characters.
    # NOTE[DIFF] relative buckets on the logits, where the paper has relative position vectors and an adaptive span.
    "all_attention": DecoderSpec(
        vocab=256,
        depth=18,
        arrangement=PostLN(),
        attention=Attention(bias=False, persistent=1024),
        layout=AttentionOnly(),
        positions=Relative(),
        head=LinearHead(bias=True),
    ),
    # Zhang et al. 2019: no norm; shifts inside the sub-layers, scales outside; last matrices and head born zero.
    "fixup": EncoderDecoderSpec(
        vocab=37_000,
        arrangement=Fixup(),
        attention=FixupAttention(),
        feed_forward=FixupFeedForward(),
        head=LinearHead(),
        init=XavierUniform(),
        dropout=Dropout(embedding=0.1, branch=0.1),
    ),
    # Gorishniy et al. 2021: California Housing's eight numeric columns; set numeric, categories and outputs to yours.
    "ft_transformer": FTTransformerSpec(),
}
