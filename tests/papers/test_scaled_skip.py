"""A constant on the skip: x <- c x + F(LN(x)) and LN(c x + F(x)). Over L sub-layers the skip path multiplies by c^L."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from addnorm.arrangements import Scaled, ScaledPost
from addnorm.layers.norms import NoNorm
from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen
from tests.papers.test_pre_ln import final_norm


def scaled(constant: float) -> Callable[[Tensor, list, dict], Tensor]:
    def reference(x: Tensor, layers: list, close: dict) -> Tensor:
        for layer in layers:
            for F, p in layer:
                x = constant * x + F(layer_norm(x, p["before.weight"], p["before.bias"]))
        return final_norm(x, close)

    return reference


def scaled_post(constant: float) -> Callable[[Tensor, list, dict], Tensor]:
    def reference(x: Tensor, layers: list, close: dict) -> Tensor:
        assert close == {}
        for layer in layers:
            for F, p in layer:
                x = layer_norm(constant * x + F(x), p["after.weight"], p["after.bias"])
        return x

    return reference


@every_case
def test_scaled_is_the_formula(case: Case) -> None:
    assert_follows(specimen(Scaled(constant=0.7), case), scaled(0.7))


@every_case
def test_scaled_post_is_the_formula(case: Case) -> None:
    assert_follows(specimen(ScaledPost(constant=0.7), case), scaled_post(0.7))


@pytest.mark.parametrize(("constant", "depth"), [(0.9, 3), (0.9, 40), (1.0, 40), (1.1, 40)])
@pytest.mark.parametrize("shape", ["encoder", "decoder beside an encoder"])
def test_the_skip_path_vanishes_or_explodes_as_c_to_the_depth(constant: float, depth: int, shape: str) -> None:
    """Branches that say nothing leave c^L times the input, L counting sub-layers."""
    the = specimen(
        Scaled(constant=constant, norm=NoNorm()), Case(shape, torch.float64), depth=depth, other_depth=1, width=4
    )
    with torch.no_grad():
        for parameter in the.stack.parameters():
            parameter.zero_()
    sublayers = depth * (2 if shape == "encoder" else 3)
    measured = the.output() / the.x
    torch.testing.assert_close(measured, torch.full_like(measured, constant**sublayers), rtol=1e-12, atol=0.0)
    if constant < 1 and depth == 40:
        assert measured.max() < 3e-4
    if constant > 1:
        assert measured.min() > 2e3
