"""The two-residual block: h = relu(fc1 x), x <- relu(fc2 h + x + h)."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.papers.stacks import Case, assert_follows, every_case, specimen


def two_residual(x: Tensor, layers: list, close: dict) -> Tensor:
    """The paper's block has two sub-layers; a third, in the middle, is a residual of its own: h <- relu(F(h) + h)."""
    for (first, _), *middle, (last, _) in layers:
        h = torch.relu(first(x))
        for F, _ in middle:
            h = torch.relu(F(h) + h)
        x = torch.relu(last(h) + x + h)
    return x


@every_case
def test_two_residual_is_the_formula(case: Case) -> None:
    assert_follows(specimen("two_residual", case), two_residual)
