"""Sizes at which a model is built and run in milliseconds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from addnorm.models import EncoderDecoder, FTTransformer, TabTransformer

SIZES: dict[str, Any] = {"vocab": 11, "width": 8, "heads": 2, "depth": 2}
TOKENS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
SOURCE = torch.tensor([[9, 8, 7], [6, 5, 4]])


def batch_for(model: Any) -> tuple[Any, ...]:
    """Two rows of whatever that model reads."""
    if isinstance(model, FTTransformer | TabTransformer):
        columns = model.spec.categories
        numeric = torch.linspace(-1, 1, 2 * model.spec.numeric).view(2, -1) if model.spec.numeric else None
        return numeric, torch.zeros(2, len(columns), dtype=torch.long) if columns else None
    return (SOURCE, TOKENS) if isinstance(model, EncoderDecoder) else (TOKENS,)


def assert_lives(model: Any, *batch: Any) -> Tensor:
    """Forward and backward, and not a number that is none."""
    output = model(*(batch or batch_for(model)))
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (output * direction.to(output.dtype)).sum().backward()
    assert output.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    return output
