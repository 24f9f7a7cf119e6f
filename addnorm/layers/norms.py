"""Norms: which axes are averaged, and what is learned.

| kind          | averages over    | formula                             | learned           |
|---------------|------------------|-------------------------------------|-------------------|
| layer_norm    | features         | w * (x - mean) / sqrt(var + e) + b  | w, b              |
| rms_norm      | features         | w * x / sqrt(mean(x^2) + e)         | w                 |
| scale_norm    | features         | g * x / max(|x|, e)                 | one g, born sqrt(D) |
| batch_norm    | batch, positions | w * (x - mean) / sqrt(var + e) + b  | w, b (+ running)  |
| instance_norm | positions        | w * (x - mean) / sqrt(var + e) + b  | w, b              |
| no_norm       |                  | x                                   |                   |

The two that average over positions let row t see row s: they are for study, in encoders, and a causal stack
refuses them (a token would see the tokens after it, and cached decoding could not equal the full forward).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.part import Part, same
from addnorm.spec import Bool, Positive, Spec

Normalise = Callable[[Tensor], Tensor]


class Norm(Spec, family="norm"):
    position_wise: ClassVar[bool] = True

    @abstractmethod
    def build(self, width: int) -> Normalise: ...


class NoNorm(Norm, kind="no_norm"):
    def build(self, width: int) -> Normalise:
        return same


class LayerNorm(Norm, kind="layer_norm"):
    """Ba et al. 2016, arXiv:1607.06450."""

    eps: Positive = 1e-5
    bias: Bool = True

    def build(self, width: int) -> Normalise:
        return LayerNormModule(width, self.eps, self.bias)


class RMSNorm(Norm, kind="rms_norm"):
    """Zhang & Sennrich 2019, arXiv:1910.07467; T5's rescale-only norm.

    NOTE[DIFF] eps stands inside the root, as in T5 and Llama; the paper's code adds it outside.
    """

    eps: Positive = 1e-6

    def build(self, width: int) -> Normalise:
        return RMSNormModule(width, self.eps)


class ScaleNorm(Norm, kind="scale_norm"):
    """Nguyen & Salazar 2019, arXiv:1910.05895."""

    eps: Positive = 1e-5

    def build(self, width: int) -> Normalise:
        return ScaleNormModule(width, self.eps)


class BatchNorm(Norm, kind="batch_norm"):
    """Ioffe & Szegedy 2015, arXiv:1502.03167. Padded positions are counted: it cannot know them."""

    position_wise: ClassVar[bool] = False
    eps: Positive = 1e-5
    momentum: Annotated[float, Strict(), Field(gt=0.0, le=1.0)] = 0.1

    def build(self, width: int) -> Normalise:
        return BatchNormModule(width, self.eps, self.momentum)


class InstanceNorm(Norm, kind="instance_norm"):
    """Ulyanov et al. 2016, arXiv:1607.08022. Padded positions are counted: it cannot know them."""

    position_wise: ClassVar[bool] = False
    eps: Positive = 1e-5

    def build(self, width: int) -> Normalise:
        return InstanceNormModule(width, self.eps)


# -- the modules -----------------------------------------------------------------------------------------


class NormModule(Part):
    """Abstract: by this a picture or a probe knows a norm when it meets one."""


class LayerNormModule(NormModule):
    def __init__(self, width: int, eps: float, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, 1.0
        if self.bias is not None:
            yield self.bias, 0.0

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class RMSNormModule(NormModule):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, 1.0

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class ScaleNormModule(NormModule):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), width**0.5))
        self.width, self.eps = width, eps

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * (self.weight / length.clamp(min=self.eps))

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, self.width**0.5

    def extra_repr(self) -> str:
        return f"{self.width}, eps={self.eps}"


class BatchNormModule(NormModule):
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, eps: float, momentum: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.eps, self.momentum = eps, momentum

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (B, T, D) -> (B*T, D)
        rows = F.batch_norm(
            rows, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )
        return rows.view(x.shape)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, 1.0
        yield self.bias, 0.0
        yield self.running_mean, 0.0
        yield self.running_var, 1.0


class InstanceNormModule(NormModule):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-2, keepdim=True)  # over T, per sequence and feature
        variance = centred.square().mean(dim=-2, keepdim=True)
        return centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, 1.0
        yield self.bias, 0.0
