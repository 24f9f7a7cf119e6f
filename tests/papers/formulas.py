"""The norms of the papers, written out: nothing here calls a norm of torch or of the package."""

from __future__ import annotations

import torch
from torch import Tensor


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Ba et al. 2016: the variance is the biased one, eps stands inside the root."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return gain * (centred / torch.sqrt(variance + eps)) + bias


def rms_norm(x: Tensor, gain: Tensor, eps: float = 1e-6) -> Tensor:
    """Zhang & Sennrich 2019, with T5's and Llama's eps inside the root."""
    return gain * (x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps))


def scale_norm(x: Tensor, length: Tensor, eps: float = 1e-5) -> Tensor:
    """Nguyen & Salazar 2019: every vector gets the one learned length."""
    norm = torch.sqrt((x * x).sum(dim=-1, keepdim=True))
    return length * x / torch.maximum(norm, torch.full_like(norm, eps))
