"""Mix-LN (Li et al. 2024): the first floor(a N) layers Post-LN, the others Pre-LN, and a final norm."""

from __future__ import annotations

from collections.abc import Callable
from math import floor

import pytest
from torch import Tensor

from addnorm.arrangements import CATALOGUE
from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen
from tests.papers.test_pre_ln import final_norm


def mix_ln(share: float, depth: int) -> Callable[[Tensor, list, dict], Tensor]:
    def reference(x: Tensor, layers: list, close: dict) -> Tensor:
        assert len(layers) == depth
        for number, layer in enumerate(layers):
            for F, p in layer:
                if number < floor(share * depth):
                    x = layer_norm(x + F(x), p["after.weight"], p["after.bias"])
                else:
                    x = x + F(layer_norm(x, p["before.weight"], p["before.bias"]))
        return final_norm(x, close)

    return reference


@every_case
def test_mix_ln_is_the_formula(case: Case) -> None:
    """A quarter of six layers is one and a half: one."""
    assert_follows(specimen("mix_ln", case, depth=6), mix_ln(0.25, 6))


@pytest.mark.parametrize("share", [0.34, 0.67])
@every_case
def test_the_share_decides_how_many_layers_are_post_ln(case: Case, share: float) -> None:
    assert_follows(specimen(CATALOGUE["mix_ln"].replace({"share": share}), case), mix_ln(share, 3))
