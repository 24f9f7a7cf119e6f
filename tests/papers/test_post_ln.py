"""Post-LN (Vaswani et al. 2017): x <- LN(x + F(x)), no norm at the end. And what is left of it without the skip."""

from __future__ import annotations

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen


def post_ln(x: Tensor, layers: list, close: dict) -> Tensor:
    assert close == {}, "the last act of a Post-LN stack is its last norm"
    for layer in layers:
        for F, p in layer:
            x = layer_norm(x + F(x), p["after.weight"], p["after.bias"])
    return x


def no_skip(x: Tensor, layers: list, close: dict) -> Tensor:
    for layer in layers:
        for F, p in layer:
            x = layer_norm(F(x), p["after.weight"], p["after.bias"])
    return x


@every_case
def test_post_ln_is_the_formula(case: Case) -> None:
    assert_follows(specimen("post_ln", case), post_ln)


@every_case
def test_no_skip_is_the_formula(case: Case) -> None:
    assert_follows(specimen("no_skip", case), no_skip)
