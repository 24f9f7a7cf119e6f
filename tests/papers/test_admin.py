"""Admin (Liu et al. 2020): x <- LN(omega * x + F(x)), omega a learned vector of each sub-layer."""

from __future__ import annotations

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import WIDTH, Case, assert_follows, every_case, specimen


def admin(x: Tensor, layers: list, close: dict) -> Tensor:
    assert close == {}
    for layer in layers:
        for F, p in layer:
            assert p["skip.weight"].shape == (WIDTH,)
            x = layer_norm(p["skip.weight"] * x + F(x), p["after.weight"], p["after.bias"])
    return x


@every_case
def test_admin_is_the_formula(case: Case) -> None:
    assert_follows(specimen("admin", case), admin)
