"""B2T (Takase et al. 2022): Post-LN, and a second skip from the layer's input to just before its last norm."""

from __future__ import annotations

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen


def b2t(x: Tensor, layers: list, close: dict) -> Tensor:
    assert close == {}
    for *inner, last in layers:
        a = x
        for F, p in inner:  # attention, and cross-attention where there is one
            a = layer_norm(a + F(a), p["after.weight"], p["after.bias"])
        x = layer_norm(x + a + last.F(a), last.p["after.weight"], last.p["after.bias"])
    return x


@every_case
def test_b2t_is_the_formula(case: Case) -> None:
    assert_follows(specimen("b2t", case), b2t)
