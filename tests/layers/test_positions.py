"""Positions: precision far out, positions of each sequence's own, and sizes that do not fit."""

import pytest
import torch

from addnorm.layers.positions import ALiBi, Index, Learned, Relative, Rotary, Sinusoidal
from addnorm.spec import SpecError
from tests.layers.stage import draw, redraw
from tests.tolerances import assert_close

FAR = torch.tensor([[1001]])
ROWS = torch.tensor([[0, 1, 2], [5, 6, 7]])


def test_sinusoids_far_out_are_exact_in_half_precision():
    """The table is made in float32 and cast: in bfloat16, position 1001 would be 1000."""
    half = Sinusoidal().additive(8, 1)(torch.zeros(1, 1, 8, dtype=torch.bfloat16), FAR)
    whole = Sinusoidal().additive(8, 1)(torch.zeros(1, 1, 8), FAR)
    assert torch.equal(half, whole.bfloat16())


def test_angles_far_out_are_exact_in_half_precision():
    """A unit vector shows the angle it was turned by."""
    x = torch.eye(1, 8)[None, None]
    half, whole = Rotary().rotation(8)(x.bfloat16(), FAR), Rotary().rotation(8)(x, FAR)
    assert torch.equal(half, whole.bfloat16())


def test_a_rotation_keeps_every_length():
    x = draw(1, 1, 3, 8)
    assert_close(Rotary(share=0.5).rotation(8)(x, ROWS[:1]).norm(dim=-1), x.norm(dim=-1))


def test_relative_positions_far_out_are_in_the_last_bucket():
    module = redraw(Relative(buckets=8, max_distance=16).bias(2, False))
    bias = module(torch.tensor([[10**6]]), torch.tensor([[0, 10]]))
    assert torch.equal(bias[0, :, 0, 0], module.weight[-1])
    assert torch.equal(bias[..., 0], bias[..., 1])


@pytest.mark.parametrize("spec", [Sinusoidal(), Learned(), Index()], ids=lambda spec: spec.kind)
def test_each_sequence_has_its_own_positions_on_the_embedding(spec):
    module, x = redraw(spec.additive(4, 8)), draw(2, 3, 4)
    assert torch.equal(module(x, ROWS), torch.cat([module(x[i : i + 1], ROWS[i : i + 1]) for i in range(2)]))


def test_each_sequence_has_its_own_positions_on_query_and_key():
    turn, x = Rotary().rotation(4), draw(2, 3, 3, 4)
    assert torch.equal(turn(x, ROWS), torch.cat([turn(x[i : i + 1], ROWS[i : i + 1]) for i in range(2)]))


@pytest.mark.parametrize("spec", [ALiBi(), Relative(buckets=8, max_distance=16)], ids=lambda spec: spec.kind)
def test_each_sequence_has_its_own_positions_on_the_logits(spec):
    module, keys = redraw(spec.bias(2, True)), torch.tensor([[0, 3], [6, 5]])
    both = module(ROWS, keys)
    assert torch.equal(both, torch.cat([module(ROWS[i : i + 1], keys[i : i + 1]) for i in range(2)]))
    assert not torch.equal(both[0], both[1])


@pytest.mark.parametrize(("width", "share"), [(7, 1.0), (8, 0.1), (6, 0.5)])
def test_rotary_wants_an_even_number_of_features(width, share):
    with pytest.raises(SpecError, match=r"wanted an even number of features, came .*; change heads, width or"):
        Rotary(share=share).rotation(width)


@pytest.mark.parametrize(("two_way", "too_near"), [(True, 8), (False, 16)])
def test_relative_wants_room_for_far_buckets(two_way, too_near):
    with pytest.raises(SpecError, match=f"wanted max_distance above the {too_near} exact buckets, came {too_near}"):
        Relative(buckets=32, max_distance=too_near).bias(2, two_way)
    Relative(buckets=32, max_distance=too_near + 1).bias(2, two_way)
