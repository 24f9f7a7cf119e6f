"""ResiDual (Xie et al. 2023): a Post-LN stream p and an untouched stream r; y = p + LN(r)."""

from __future__ import annotations

from torch import Tensor

from tests.papers.formulas import layer_norm
from tests.papers.stacks import Case, assert_follows, every_case, specimen


def resi_dual(x: Tensor, layers: list, close: dict) -> Tensor:
    p, r = x, x
    for layer in layers:
        for F, parameters in layer:
            f = F(p)
            p = layer_norm(p + f, parameters["after.weight"], parameters["after.bias"])
            r = r + f
    return p + layer_norm(r, close["norm.weight"], close["norm.bias"], eps=1e-7)


@every_case
def test_resi_dual_is_the_formula(case: Case) -> None:
    assert_follows(specimen("resi_dual", case), resi_dual)
