"""Hyper-connections (Zhu et al. 2024): n lanes H, read by A_m, mixed by A_r, written by B, part static, part by input.

H <- B(H)' F(LN(A_m(H)' H)) + A_r(H)' H
B(H)   = s_b tanh(norm(H) W_b)' + B
A_m(H) = s_a tanh(norm(H) W_m) + A_m
A_r(H) = s_a tanh(norm(H) W_r) + A_r
"""

from __future__ import annotations

import torch
from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen

LANES = 4


def hyper_connections(x: Tensor, layers: list, close: dict) -> Tensor:
    lanes = [x] * LANES
    for layer in layers:
        for F, p in layer:
            read, mixed, written = coefficients(lanes, p)
            h = sum(read[i] * lanes[i] for i in range(LANES))
            y = F(layer_norm(h, p["before.weight"], p["before.bias"]))
            lanes = [
                written[j] * y + sum(mixed[i][j] * lanes[i] for i in range(LANES)) for j in range(LANES)
            ]  # fmt: skip
    total = sum(lanes[1:], lanes[0])
    return layer_norm(total, close["norm.weight"], close["norm.bias"])


def coefficients(lanes: list[Tensor], p: dict) -> tuple[list[Tensor], list[list[Tensor]], list[Tensor]]:
    """A_m by lane read, A_r by lane read and lane written, B by lane written; each (B, T, 1), one number a token."""
    normed = [layer_norm(lane, p["mixing.norm.weight"], p["mixing.norm.bias"]) for lane in lanes]

    def by_input(name: str, row: int, lane: int) -> Tensor:
        return torch.tanh((normed[lane] * p[name][row]).sum(dim=-1, keepdim=True))

    mix, give = p["mixing.scale_mix"], p["mixing.scale_give"]
    read = [mix * by_input("mixing.take_by_input", 0, i) + p["mixing.take"][i] for i in range(LANES)]
    mixed = [
        [mix * by_input("mixing.keep_by_input", j, i) + p["mixing.keep"][i, j] for j in range(LANES)]
        for i in range(LANES)
    ]
    written = [give * by_input("mixing.give_by_input", 0, j) + p["mixing.give"][j] for j in range(LANES)]
    return read, mixed, written


@every_case
def test_hyper_connections_are_the_formula(case: Case) -> None:
    assert_follows(specimen("hyper_connections", case), hyper_connections)
