"""Costs are counted on the model, and the small ones can be counted by hand."""

import pytest

from addnorm.arrangements import CATALOGUE
from addnorm.arrangements.card import WARM_UPS, card
from addnorm.atlas.cost import baseline, cost

DEPTH, WIDTH = 3, 32


def extra(name, mode="encoder"):
    return cost(CATALOGUE[name], mode, DEPTH, WIDTH, 4).parameters - baseline(mode, DEPTH, WIDTH, 4).parameters


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("post_ln", -2 * WIDTH),  # no final norm
        ("sandwich", 2 * DEPTH * 2 * WIDTH),  # one norm more per sub-layer
        ("no_norm", -(2 * DEPTH + 1) * 2 * WIDTH),
        ("rezero", -(2 * DEPTH + 1) * 2 * WIDTH + 2 * DEPTH),  # no norms, one number per sub-layer
        ("admin", -2 * WIDTH + 2 * DEPTH * WIDTH),  # no final norm, a vector per sub-layer
        ("gated", 2 * DEPTH * (WIDTH * WIDTH + WIDTH)),
        ("concat", 2 * DEPTH * 2 * WIDTH * WIDTH),
        ("dlcl", DEPTH * 2 * WIDTH + sum(range(1, DEPTH + 2))),  # a norm per layer, a lower triangle of numbers
        ("mix_ln", 0),
    ],
)
def test_extra_parameters(name, by_hand):
    assert extra(name) == by_hand


@pytest.mark.parametrize(("name", "copies"), [("pre_ln", 1), ("b2t", 1), ("resi_dual", 2), ("hyper_connections", 4)])
def test_how_many_copies_of_the_stream_live_between_blocks(name, copies):
    assert cost(CATALOGUE[name], "encoder", DEPTH, WIDTH, 4).stream == copies


def test_more_norms_keep_more_for_the_backward_pass():
    saved = [cost(CATALOGUE[name], "encoder", DEPTH, WIDTH, 4).saved for name in ("no_norm", "pre_ln", "sandwich")]
    assert saved[0] < saved[1] < saved[2]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_card_is_complete(name):
    seen = card(CATALOGUE[name])
    assert all((seen.title, seen.summary, seen.formula, seen.cures, seen.costs, seen.paper))
    assert seen.warm_up in WARM_UPS
