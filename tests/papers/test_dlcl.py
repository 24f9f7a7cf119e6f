"""DLCL (Wang et al. 2019): each layer reads a learned combination of the outputs of all layers below it.

y_0 is the embedding and is not normalised; y_k is the output of layer k.
"""

from __future__ import annotations

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen


def combine(weights: Tensor, past: list[Tensor]) -> Tensor:
    assert len(weights) == len(past), "one scalar for the embedding and each layer below"
    total = weights[0] * past[0]
    for k in range(1, len(past)):
        total = total + weights[k] * past[k]
    return total


def dlcl(x: Tensor, layers: list, close: dict) -> Tensor:
    """Pre-norm: x_{l+1} = sum_k W_k LN_k(y_k); the stack's output is one more combination, then the final norm."""
    past = [x]
    for layer in layers:
        x = combine(layer[0].p["recall.weight"], past)
        for F, p in layer:
            x = x + F(layer_norm(x, p["inner.before.weight"], p["inner.before.bias"]))
        past.append(layer_norm(x, layer[-1].p["remember.norm.weight"], layer[-1].p["remember.norm.bias"]))
    return layer_norm(combine(close["weight"], past), close["norm.weight"], close["norm.bias"])


def dlcl_post(x: Tensor, layers: list, close: dict) -> Tensor:
    """Post-norm: x_{l+1} = LN_{l+1}(sum_k W_k y_k); the first layer reads the embedding, which has no norm."""
    past = [x]
    for number, layer in enumerate(layers):
        x = combine(layer[0].p["recall.weight"], past)
        if number > 0:
            x = layer_norm(x, layer[0].p["recall.norm.weight"], layer[0].p["recall.norm.bias"])
        for F, p in layer:
            x = layer_norm(x + F(x), p["inner.after.weight"], p["inner.after.bias"])
        past.append(x)
    return layer_norm(combine(close["weight"], past), close["norm.weight"], close["norm.bias"])


@every_case
def test_dlcl_is_the_formula(case: Case) -> None:
    assert_follows(specimen("dlcl", case), dlcl)


@every_case
def test_dlcl_post_is_the_formula(case: Case) -> None:
    assert_follows(specimen("dlcl_post", case), dlcl_post)
