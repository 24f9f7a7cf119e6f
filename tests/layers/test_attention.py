"""Attention: heads that share, two sequences, windows, and what never learns."""

import pytest
import torch

from addnorm.layers.attention import Attention, WrittenOut
from addnorm.layers.dropout import Dropout
from addnorm.layers.masks import Causal, Mask, make_masks, memory_mask
from addnorm.layers.norms import RMSNorm
from addnorm.layers.positions import ALiBi, Rotary
from addnorm.spec import SpecError
from tests.layers.stage import BATCH, HEADS, LENGTH, WIDTH, built, context, draw, seat
from tests.tolerances import assert_close

H = draw(BATCH, LENGTH, WIDTH, seed=3)
CAUSAL = Mask(causal=True)


def look_up(q, keys, values, scale):
    """One query in one dictionary: the average of the values, weighed by how well their keys fit."""
    fits = torch.stack([q @ key * scale for key in keys])
    weights = fits.exp() / fits.exp().sum()
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def written_by_hand(module, h, source):
    """Every head of every row of every sequence, one after the other."""
    d = module.head_width
    q, k, v = module.query(h), module.key(source), module.value(source)
    rows = []
    for b in range(len(h)):
        for t in range(h.shape[1]):
            heads = [slice(head * d, head * d + d) for head in range(HEADS)]
            answers = [look_up(q[b, t, own], k[b, :, own], v[b, :, own], d**-0.5) for own in heads]
            rows.append(module.output(torch.cat(answers)))
    return torch.stack(rows).view(len(h), h.shape[1], -1)


def test_grouped_heads_are_full_heads_with_repeated_keys_and_values():
    grouped, full = built(Attention(kv_heads=2)), built(Attention())
    state = grouped.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        rows = state[name].unflatten(0, (2, -1))
        state[name] = rows.repeat_interleave(2, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    assert_close(grouped(H, context(CAUSAL)), full(H, context(CAUSAL)))


# -- across two sequences ----------------------------------------------------------------------------------

MEMORY = draw(BATCH, 3, WIDTH, seed=4)


def test_cross_attention_reads_keys_and_values_from_the_memory():
    module = built(Attention(), cross=True)
    assert_close(module(H, context(memory=MEMORY)), written_by_hand(module, H, MEMORY))


def test_cross_attention_does_not_turn_and_has_no_window():
    """Distance has no meaning between two sequences."""
    plain, other = built(Attention(), cross=True), built(Attention(window=1), cross=True, positions=Rotary(share=0.7))
    other.load_state_dict(plain.state_dict())
    assert torch.equal(plain(H, context(memory=MEMORY)), other(H, context(memory=MEMORY)))


def test_cross_attention_ignores_padding_of_the_memory():
    module = built(Attention(), cross=True)
    real = torch.tensor([[True, True, False], [True, True, True]])
    came = module(H, context(memory=MEMORY, memory_mask=memory_mask(real)))
    assert_close(came[:1], module(H[:1], context(memory=MEMORY[:1, :2])))
    assert_close(came[1:], module(H[1:], context(memory=MEMORY[1:])))


def test_a_memory_of_nothing_says_only_the_output_bias():
    module = built(Attention(), cross=True)
    real = torch.tensor([[False] * 3, [True] * 3])
    came = module(H, context(memory=MEMORY, memory_mask=memory_mask(real)))
    assert torch.equal(came[0], module.output.bias.expand(LENGTH, -1))


# -- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Attention(), "wanted a width divisible by heads, came width 10 and heads 4; change one"),
        (Attention(head_width=2, kv_heads=3), "wanted kv_heads that divide heads, came 3 and 4"),
        (Attention(head_width=2, kv_heads=8), "wanted kv_heads that divide heads, came 8 and 4"),
    ],
    ids=["width", "kv heads", "too many kv heads"],
)
def test_sizes_that_do_not_fit(spec, said):
    with pytest.raises(SpecError, match=said):
        spec.check(seat(width=10))


def test_a_head_width_of_its_own_frees_the_width():
    module = built(Attention(head_width=2), width=10)
    assert module(draw(1, LENGTH, 10), context()).shape == (1, LENGTH, 10)


def test_the_attention_map_is_a_distribution_over_what_is_seen():
    chances = WrittenOut().map(draw(2, 4, 5, 3), draw(2, 2, 5, 3, seed=1), CAUSAL, None)
    assert_close(chances.sum(-1), torch.ones(2, 4, 5, dtype=torch.float64))
    assert (chances.triu(1) == 0).all()


def test_weight_dropout_acts_in_training_alone():
    module = built(Attention(), dropout=Dropout(attention=0.5))
    torch.manual_seed(0)
    first, second = module(H, context()), module(H, context())
    assert not torch.equal(first, second)
    module.eval()
    assert_close(module(H, context()), written_by_hand(module, H, H))


# -- the key bias ------------------------------------------------------------------------------------------

VARIANTS = {
    "plain": (Attention(), {}),
    "alibi": (Attention(), {"positions": ALiBi()}),
    "windowed": (Attention(window=2), {}),
    "rotary": (Attention(head_width=4), {"positions": Rotary()}),
    "normed": (Attention(query_key_norm=RMSNorm()), {}),
    "persistent": (Attention(persistent=2), {}),
    "capped": (Attention(core=WrittenOut(cap=1.0)), {}),
    "written out": (Attention(core=WrittenOut()), {}),
    "cross": (Attention(), {"cross": True}),
    "cross persistent": (Attention(persistent=2), {"cross": True}),
    "cross under rotary": (Attention(head_width=4), {"cross": True, "positions": Rotary()}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_key_bias_learns_exactly_where_it_is_not_declared_idle(variant):
    """Softmax does not see what is added to all logits of a row."""
    spec, choices = VARIANTS[variant]
    module = built(spec, **choices)
    (module(H, context(window=spec.window, memory=MEMORY)) * draw(*H.shape)).sum().backward()
    idle = [tensor for tensor in module.idle() if tensor is module.key.bias]
    assert (module.key.bias.grad.abs().max() < 1e-12) == bool(idle)


# -- cached decoding, window and all -----------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_window_hides_what_is_far(window):
    """Row t changes with row s exactly where 0 <= t - s < window."""
    module = built(Attention(window=window))
    masks = make_masks(Causal(), [window], torch.arange(LENGTH)[None], torch.arange(LENGTH)[None], None, None, True)
    h = H[:1].clone().requires_grad_()
    y = module(h, context(masks[window], window))
    for t in range(LENGTH):
        (grad,) = torch.autograd.grad(y[0, t].sum(), h, retain_graph=True)
        seen = grad[0].abs().sum(-1) > 0
        assert seen.tolist() == [0 <= t - s < window for s in range(LENGTH)]
