"""How close is equal: stated once, for every test that compares two ways to compute one thing."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
"""By precision, absolute and relative alike: |actual - expected| <= t * (1 + largest |expected|).

Relative to the largest and not to each, because matrices and norms mix features: a small one inherits the rounding of
its large neighbours.
"""


def assert_close(actual: Tensor, expected: Tensor, dtype: torch.dtype | None = None, because: str = "") -> None:
    """Equal up to rounding: same shape, same precision, every number within the tolerance; NaN equals nothing.

    dtype    whose tolerance counts; None: the tensors' own
    because  said first when it fails
    """
    finite = expected[torch.isfinite(expected)].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    torch.testing.assert_close(
        actual,
        expected,
        rtol=0.0,
        atol=TOLERANCE[dtype or expected.dtype] * (1.0 + largest),
        msg=lambda said: f"{because}\n{said}" if because else said,
    )
