"""How tokens enter and how logits leave."""

from __future__ import annotations

import torch

from addnorm.layers.embeddings import FixNorm, TiedHead, TokenEmbedding
from addnorm.layers.norms import LayerNorm
from addnorm.layers.positions import NoPositions, Sinusoidal
from tests.papers.formulas import layer_norm
from tests.papers.stacks import VOCAB, normal, redraw, tokens
from tests.papers.test_positions import sinusoids
from tests.tolerances import assert_close

WIDTH = 12


def made(spec, positions=NoPositions()):  # noqa: B008
    module = spec.build(VOCAB, WIDTH, 9, positions, 0.0).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    redraw(module, seed=4)
    return module


def counted() -> torch.Tensor:
    return torch.arange(tokens().shape[1])[None]


def test_the_embedding_of_vaswani_is_sqrt_d_times_the_table_plus_sinusoids() -> None:
    module = made(TokenEmbedding(), Sinusoidal())
    expected = WIDTH**0.5 * module.weight[tokens()] + sinusoids(tokens().shape[1], WIDTH, 10_000.0)
    assert_close(module(tokens(), counted()), expected)


def test_the_embedding_of_bert_adds_types_and_norms_the_sum() -> None:
    module = made(TokenEmbedding(times_sqrt_width=False, types=2, norm=LayerNorm(eps=1e-12)), Sinusoidal())
    types = (tokens(seed=5) > VOCAB // 2).long()
    total = module.weight[tokens()] + module.types[types] + sinusoids(tokens().shape[1], WIDTH, 10_000.0)
    expected = layer_norm(total, module.norm.weight, module.norm.bias, eps=1e-12)
    assert_close(module(tokens(), counted(), types), expected)


def test_fix_norm_gives_every_word_the_same_length_in_and_out() -> None:
    """e / |e| for the lookup, times sqrt(d), and for the tied head."""
    module = made(FixNorm())
    length = torch.sqrt((module.weight * module.weight).sum(dim=1, keepdim=True))
    assert length.std() > 1e-3, "the raw vectors differ in length, or nothing is tested"
    unit = module.weight / length
    x = module(tokens(), counted())
    assert_close(x, WIDTH**0.5 * unit[tokens()])
    assert_close(x.square().sum(dim=-1), torch.full(x.shape[:2], float(WIDTH)).double())
    h = normal((2, 3, WIDTH), seed=6)
    assert_close(TiedHead().build(VOCAB, WIDTH)(h, module), h @ unit.T)


def test_a_tied_head_reads_the_table_of_the_embedding() -> None:
    module, h = made(TokenEmbedding()), normal((2, 3, WIDTH), seed=6)
    assert_close(TiedHead().build(VOCAB, WIDTH)(h, module), h @ module.weight.T)
    # T5's table has unit variance, and its logits are divided by sqrt(d).
    assert_close(TiedHead(over_sqrt_width=True).build(VOCAB, WIDTH)(h, module), h @ module.weight.T / WIDTH**0.5)
