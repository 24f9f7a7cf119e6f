"""Skips that are not a sum: the highway's gate, and concatenation."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen
from tests.papers.test_pre_ln import final_norm


def gated(x: Tensor, layers: list, close: dict) -> Tensor:
    """The gate reads the stream itself, not what the sub-layer reads."""
    for layer in layers:
        for F, p in layer:
            gate = 1 / (1 + torch.exp(-(x @ p["gate.weight"].T + p["gate.bias"])))
            x = gate * F(layer_norm(x, p["before.weight"], p["before.bias"])) + (1 - gate) * x
    return final_norm(x, close)


def concat(x: Tensor, layers: list, close: dict) -> Tensor:
    width = x.shape[-1]
    for layer in layers:
        for F, p in layer:
            y = F(layer_norm(x, p["before.weight"], p["before.bias"]))
            # W [x ; y] in its two halves: the stream first, the branch second.
            x = x @ p["join.weight"][:, :width].T + y @ p["join.weight"][:, width:].T
    return final_norm(x, close)


@every_case
def test_gated_is_the_formula(case: Case) -> None:
    assert_follows(specimen("gated", case), gated)


@every_case
def test_concat_is_the_formula(case: Case) -> None:
    assert_follows(specimen("concat", case), concat)
