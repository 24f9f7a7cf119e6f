"""Without norms: ReZero (Bachlechner et al. 2020), T-Fixup (Huang et al. 2020), Fixup (Zhang et al. 2019)."""

from __future__ import annotations

from torch import Tensor

from addnorm.arrangements import Fixup
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from tests.papers.stacks import Case, assert_follows, every_case, specimen


def rezero(x: Tensor, layers: list, close: dict) -> Tensor:
    assert close == {}
    for layer in layers:
        for F, p in layer:
            x = x + p["branch.weight"] * F(x)
    return x


def t_fixup(x: Tensor, layers: list, close: dict) -> Tensor:
    """The whole of T-Fixup is in the birth of its weights."""
    assert close == {}
    for layer in layers:
        for F, p in layer:
            assert p == {}
            x = x + F(x)
    return x


def fixup(x: Tensor, layers: list, close: dict) -> Tensor:
    """One scalar scale after each branch; a last shift and scale close the stack.

    The official decoder closes with the shift alone; here, as the design's notes say, both sides have both.
    """
    for layer in layers:
        for F, p in layer:
            assert p["branch.weight"].numel() == 1
            x = x + p["branch.weight"] * F(x)
    return (x - close["0.bias"]) * close["1.weight"]


@every_case
def test_rezero_is_the_formula(case: Case) -> None:
    assert_follows(specimen("rezero", case), rezero)


@every_case
def test_t_fixup_is_the_formula(case: Case) -> None:
    assert_follows(specimen("t_fixup", case), t_fixup)


@every_case
def test_fixup_is_the_formula(case: Case) -> None:
    the = specimen(Fixup(), case, attention=FixupAttention(), feed_forward=FixupFeedForward())
    assert_follows(the, fixup)
