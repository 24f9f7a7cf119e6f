"""Persistent memory: learned key-value pairs that every query sees, whatever its mask (Sukhbaatar et al. 2019)."""

import pytest
import torch

from addnorm.layers.attention import Attention
from addnorm.layers.masks import Causal, FullyVisible, Mask, make_masks, memory_mask, with_bias
from tests.layers.stage import BATCH, HEADS, LENGTH, WIDTH, built, context, draw
from tests.tolerances import assert_close

H = draw(BATCH, LENGTH, WIDTH, seed=3)
AT = torch.arange(LENGTH)[None]
REAL = torch.tensor([[True, True, True, False, False], [False] * 5])
BIAS = draw(1, HEADS, LENGTH, LENGTH, seed=5)
SLOTS = 3


def rule(visibility, real=None):
    return make_masks(visibility, [None], AT, AT, real, None, True)[None]


def seen_by_hand(mask: Mask) -> torch.Tensor:
    """(B, T, S): who sees whom among the tokens, empty rows nobody."""
    if mask.causal:
        return torch.ones(BATCH, LENGTH, LENGTH, dtype=torch.bool).tril()
    if mask.allowed is None:
        return torch.ones(BATCH, LENGTH, LENGTH, dtype=torch.bool)
    allowed = mask.allowed if mask.empty is None else mask.allowed & ~mask.empty
    return allowed[:, 0].expand(BATCH, LENGTH, LENGTH)


def by_hand(module, seen, bias=None, kv_heads=HEADS):
    """The pairs stand beside the tokens' own keys and values, times the root of their fan."""
    d = WIDTH // HEADS
    pairs = module.persistent
    share = HEADS // kv_heads
    q = module.query(H).view(BATCH, LENGTH, HEADS, d)
    k = module.key(H).view(BATCH, LENGTH, kv_heads, d)
    v = module.value(H).view(BATCH, LENGTH, kv_heads, d)
    y = torch.zeros(BATCH, LENGTH, HEADS, d, dtype=torch.float64)
    for b in range(BATCH):
        for t in range(LENGTH):
            for head in range(HEADS):
                theirs = head // share
                keys = torch.cat((pairs.key[theirs] * d**0.5, k[b, seen[b, t], theirs]))
                values = torch.cat((pairs.value[theirs].T * SLOTS**0.5, v[b, seen[b, t], theirs]))
                logits = keys @ q[b, t, head] / d**0.5
                if bias is not None:
                    logits[SLOTS:] += bias[0, head, t, seen[b, t]]
                y[b, t, head] = torch.softmax(logits, dim=0) @ values
    return module.output(y.flatten(2))


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(
    "mask",
    [Mask(), rule(Causal()), rule(FullyVisible(), REAL), rule(Causal(), REAL)],
    ids=["everybody", "causal", "padded", "causal padded"],
)
def test_persistent_pairs_are_seen_under_every_mask(mask, biased):
    """One sequence is padding alone: its rows see the pairs, and nothing else."""
    module = built(Attention(persistent=SLOTS))
    seen = seen_by_hand(mask)
    shown = with_bias(mask, BIAS) if biased else mask
    assert_close(module(H, context(shown)), by_hand(module, seen, BIAS if biased else None))


def test_grouped_heads_share_their_pairs():
    module = built(Attention(persistent=SLOTS, kv_heads=2))
    assert module.persistent.key.shape == (2, SLOTS, WIDTH // HEADS)
    assert_close(module(H, context()), by_hand(module, seen_by_hand(Mask()), kv_heads=2))


def test_a_memory_of_nothing_leaves_the_pairs():
    """Cross-attention to a source that is padding alone."""
    module = built(Attention(persistent=SLOTS), cross=True)
    nothing = torch.zeros(BATCH, 4, dtype=torch.bool)
    answers = [
        module(H, context(memory=draw(BATCH, 4, WIDTH, seed=seed), memory_mask=memory_mask(nothing))) for seed in (1, 2)
    ]
    assert torch.equal(*answers)
    assert not torch.allclose(answers[0][0, 0], answers[0][0, 1])
