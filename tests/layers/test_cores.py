"""Two ways to compute one softmax agree: torch's fused kernels, and the written-out one that shows its map."""

import pytest
import torch

from addnorm.layers.attention import SDPA, WrittenOut
from addnorm.layers.masks import Causal, FullyVisible, Mask, PrefixCausal, make_masks, memory_mask, with_bias
from tests.layers.stage import draw

AT = torch.arange(5)[None]
REAL = torch.tensor([[True, True, True, True, False], [False, False, True, True, True]])
BIAS = draw(1, 4, 5, 5, seed=9, dtype=torch.float32)
EMPTY = torch.tensor([[True] * 5, [False] * 5])


def rule(visibility, window=None, real=None, prefix=None):
    return make_masks(visibility, [window], AT, AT, real, prefix, True)[window]


MASKS = {
    "everybody": Mask(),
    "causal": rule(Causal()),
    "window": rule(Causal(), window=2),
    "two-sided window": rule(FullyVisible(), window=2),
    "prefix": rule(PrefixCausal(), prefix=torch.tensor([2, 4])),
    "padded": rule(FullyVisible(), real=REAL),
    "causal padded": rule(Causal(), real=REAL),
    "empty row": rule(Causal(), real=EMPTY),
    "memory": memory_mask(REAL),
    "bias": with_bias(Mask(), BIAS),
    "causal bias": with_bias(rule(Causal()), BIAS),
    "padded bias": with_bias(rule(Causal(), real=REAL), BIAS),
    "empty row, bias": with_bias(rule(Causal(), real=EMPTY), BIAS),
}

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}
"""Times one plus the largest number compared."""


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("name", MASKS)
def test_cores_agree(name, scale, kv_heads, dtype):
    q, k, v = (
        draw(2, heads, 5, 3, seed=heads + place, dtype=dtype).requires_grad_()
        for place, heads in enumerate((4, kv_heads, kv_heads))
    )
    outcomes = []
    for core in (SDPA(), WrittenOut()):
        y = core.attend(q, k, v, MASKS[name], scale, 0.0)
        assert y.dtype == dtype
        outcomes.append((y, *torch.autograd.grad((y * draw(2, 4, 5, 3, seed=20, dtype=dtype)).sum(), (q, k, v))))
    for ours, theirs in zip(*outcomes, strict=True):
        limit = TOLERANCE[dtype] * (1.0 + theirs.detach().abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=limit)


@pytest.mark.parametrize("core", [SDPA(), WrittenOut()], ids=lambda core: core.kind)
def test_dropout_drops_weights(core):
    """With every value one, a row's answer is the sum of the weights that stayed, each doubled."""
    torch.manual_seed(0)
    q = torch.zeros(1, 1, 400, 2)
    k = torch.zeros(1, 1, 2, 2)
    kept = core.attend(q, k, torch.ones(1, 1, 2, 2), Mask(), None, 0.5)[0, 0, :, 0]
    assert set(kept.tolist()) == {0.0, 1.0, 2.0}
    assert abs(kept.mean() - 1.0) < 0.15
