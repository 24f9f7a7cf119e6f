"""DeepNorm (Wang et al. 2022): x <- LN(alpha x + F(x)), alpha and the birth gain beta by depth."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import DEPTH, OTHER_DEPTH, Case, assert_follows, every_case, specimen


def alpha(shape: str) -> float:
    """The paper's table, by architecture and side."""
    if shape == "encoder beside a decoder":
        return 0.81 * (DEPTH**4 * OTHER_DEPTH) ** (1 / 16)
    if shape == "decoder beside an encoder":
        return (3 * DEPTH) ** 0.25
    return (2 * DEPTH) ** 0.25


def deep_norm(scale: float) -> Callable[[Tensor, list, dict], Tensor]:
    def reference(x: Tensor, layers: list, close: dict) -> Tensor:
        assert close == {}
        for layer in layers:
            for F, p in layer:
                x = layer_norm(scale * x + F(x), p["after.weight"], p["after.bias"])
        return x

    return reference


@every_case
def test_deep_norm_is_the_formula(case: Case) -> None:
    assert_follows(specimen("deep_norm", case), deep_norm(alpha(case.shape)))
