"""Norms off the skip path: Pre-LN (Xiong et al. 2020), res-post (Tay, Swin V2, OLMo 2), sandwich (CogView), none."""

from __future__ import annotations

import pytest
from torch import Tensor

from addnorm.arrangements import PreLN
from addnorm.layers.norms import NoNorm
from tests.papers.formulas import layer_norm, rms_norm, scale_norm
from tests.papers.stacks import Case, Reference, assert_follows, every_case, specimen


def final_norm(x: Tensor, close: dict) -> Tensor:
    return layer_norm(x, close["weight"], close["bias"])


def pre_ln(x: Tensor, layers: list, close: dict) -> Tensor:
    for layer in layers:
        for F, p in layer:
            x = x + F(layer_norm(x, p["before.weight"], p["before.bias"]))
    return final_norm(x, close)


def pre_ln_without_its_first_norm(x: Tensor, layers: list, close: dict) -> Tensor:
    (first, _), *rest = layers[0]
    x = x + first(x)
    return pre_ln(x, [rest, *layers[1:]], close)


def res_post(x: Tensor, layers: list, close: dict) -> Tensor:
    for layer in layers:
        for F, p in layer:
            x = x + layer_norm(F(x), p["branch.weight"], p["branch.bias"])
    return final_norm(x, close)


def sandwich(x: Tensor, layers: list, close: dict) -> Tensor:
    for layer in layers:
        for F, p in layer:
            y = F(layer_norm(x, p["before.weight"], p["before.bias"]))
            x = x + layer_norm(y, p["branch.weight"], p["branch.bias"])
    return final_norm(x, close)


def no_norm(x: Tensor, layers: list, close: dict) -> Tensor:
    assert close == {}
    for layer in layers:
        for F, p in layer:
            assert p == {}
            x = x + F(x)
    return x


@every_case
def test_pre_ln_is_the_formula(case: Case) -> None:
    assert_follows(specimen("pre_ln", case), pre_ln)


def pre_norm_of_t5(x: Tensor, layers: list, close: dict) -> Tensor:
    """Raffel et al. 2020: the norm rescales, and neither centres nor shifts."""
    for layer in layers:
        for F, p in layer:
            x = x + F(rms_norm(x, p["before.weight"], eps=1e-6))
    return rms_norm(x, close["weight"], eps=1e-6)


def pre_norm_of_nguyen(x: Tensor, layers: list, close: dict) -> Tensor:
    """Nguyen & Salazar 2019: ScaleNorm, one learned length a norm."""
    for layer in layers:
        for F, p in layer:
            x = x + F(scale_norm(x, p["before.weight"]))
    return scale_norm(x, close["weight"])


@every_case
@pytest.mark.parametrize(("norm", "reference"), [("rms_norm", pre_norm_of_t5), ("scale_norm", pre_norm_of_nguyen)])
def test_pre_ln_with_another_norm_is_the_formula(case: Case, norm: str, reference: Reference) -> None:
    assert_follows(specimen("pre_ln", case, norm=norm), reference)


@every_case
def test_pre_ln_can_drop_its_first_norm(case: Case) -> None:
    """FT-Transformer's form: the very first sub-layer of the stack reads the embedding as it is."""
    assert_follows(specimen(PreLN(first_norm=NoNorm()), case), pre_ln_without_its_first_norm)


@every_case
def test_res_post_is_the_formula(case: Case) -> None:
    assert_follows(specimen("res_post", case), res_post)


@every_case
def test_sandwich_is_the_formula(case: Case) -> None:
    assert_follows(specimen("sandwich", case), sandwich)


@every_case
def test_no_norm_is_the_formula(case: Case) -> None:
    assert_follows(specimen("no_norm", case), no_norm)
