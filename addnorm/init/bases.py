"""Base: how a weight of given fan is drawn, before the design's gain.

| kind           | matrices                                   | drawn   | embedding        | position       |
|----------------|--------------------------------------------|---------|------------------|----------------|
| xavier_uniform | sqrt(2 / (in + out))                       | uniform | D^(-1/2)         | 0.02           |
| xavier_normal  | sqrt(2 / (in + out))                       | normal  | D^(-1/2)         | 0.02           |
| fairseq        | Xavier; query, key, value / sqrt(2)        | uniform | D^(-1/2), normal | 0.02, normal   |
| normal         | std                                        | normal  | std              | std            |
| small_init     | attention sqrt(2 / 5D), others Xavier      | normal  | D^(-1/2)         | 0.02           |
| kaiming        | sqrt(2 / (1 + slope^2) / in)               | uniform | 1 / sqrt(3 D)    | 1 / sqrt(3 D)  |
| t5_init        | Mesh TensorFlow's, by role                 | normal  | 1                | D^(-1/2)       |

Numbers are standard deviations. Persistent memory is in^(-1/2) in all of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, Strict
from torch import Tensor

from addnorm.arrangements.base import Site
from addnorm.layers.part import Role
from addnorm.spec import Positive, Spec

Shape = Literal["normal", "uniform"]


class Base(Spec, family="init"):
    shape: ClassVar[Shape] = "normal"
    """Of the matrices; tables are normal unless a base says otherwise."""

    @abstractmethod
    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float: ...

    def table_std(self, site: Site, role: Role) -> float:
        return site.width**-0.5 if role == "embedding" else 0.02

    def draw(self, site: Site, role: Role, size: torch.Size, generator: torch.Generator) -> Tensor:
        """On the CPU, in float32: the same numbers on every machine."""
        if role in ("embedding", "position"):
            return self.draw_table(site, role, size, generator)
        if role == "memory":
            return normal(size, size[-1] ** -0.5, generator)
        fan_out, fan_in = size[-2], size[-1]
        return SHAPES[self.shape](size, self.matrix_std(site, role, fan_in, fan_out), generator)

    def draw_table(self, site: Site, role: Role, size: torch.Size, generator: torch.Generator) -> Tensor:
        return normal(size, self.table_std(site, role), generator)


def normal(size: torch.Size, std: float, generator: torch.Generator) -> Tensor:
    return torch.empty(size, dtype=torch.float32, device="cpu").normal_(0.0, std, generator=generator)


def uniform(size: torch.Size, std: float, generator: torch.Generator) -> Tensor:
    bound = math.sqrt(3.0) * std
    return torch.empty(size, dtype=torch.float32, device="cpu").uniform_(-bound, bound, generator=generator)


SHAPES = {"normal": normal, "uniform": uniform}


class XavierUniform(Base, kind="xavier_uniform"):
    """Glorot & Bengio 2010."""

    shape: ClassVar[Shape] = "uniform"

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        return math.sqrt(2.0 / (fan_in + fan_out))


class XavierNormal(Base, kind="xavier_normal"):
    """Glorot & Bengio 2010, as Gaussians (Xiong et al. 2020)."""

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        return math.sqrt(2.0 / (fan_in + fan_out))


class Fairseq(Base, kind="fairseq"):
    """fairseq's Transformer: Xavier uniform, with query, key and value smaller by sqrt(2).

    T-Fixup, whose factors are for plain Xavier, refuses it.
    """

    shape: ClassVar[Shape] = "uniform"

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        factor = 0.5 if role in ("query", "key", "value") else 1.0
        return math.sqrt(factor * 2.0 / (fan_in + fan_out))


class Normal(Base, kind="normal"):
    """N(0, std) for everything (GPT-2, BERT)."""

    std: Positive = 0.02

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        return self.std

    def table_std(self, site: Site, role: Role) -> float:
        return self.std


class SmallInit(Base, kind="small_init"):
    """Nguyen & Salazar 2019, arXiv:1910.05895."""

    embedding_bound: Positive | None = None
    """The embedding from U(-bound, bound) instead; 0.01 in the paper, with FixNorm."""

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        if role in ("query", "key", "value", "output"):
            return math.sqrt(2.0 / (5.0 * site.width))
        return math.sqrt(2.0 / (fan_in + fan_out))

    def draw_table(self, site: Site, role: Role, size: torch.Size, generator: torch.Generator) -> Tensor:
        if role == "embedding" and self.embedding_bound is not None:
            return uniform(size, self.embedding_bound / math.sqrt(3.0), generator)
        return super().draw_table(site, role, size, generator)


class Kaiming(Base, kind="kaiming"):
    """He et al. 2015, arXiv:1502.01852. The default slope, sqrt(5), is nn.Linear's: U(-1/sqrt(in), 1/sqrt(in))."""

    shape: ClassVar[Shape] = "uniform"
    slope: Annotated[float, Strict(), Field(ge=0.0)] = math.sqrt(5.0)

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        return math.sqrt(2.0 / (1.0 + self.slope**2) / fan_in)

    def draw_table(self, site: Site, role: Role, size: torch.Size, generator: torch.Generator) -> Tensor:
        return uniform(size, 1.0 / math.sqrt(3.0 * size[-1]), generator)


class T5Init(Base, kind="t5_init"):
    """Mesh TensorFlow's, made for attention whose logits are not divided by sqrt(d)."""

    def matrix_std(self, site: Site, role: Role, fan_in: int, fan_out: int) -> float:
        if role == "query":
            return (fan_in * fan_out / site.heads) ** -0.5
        return fan_in**-0.5

    def table_std(self, site: Site, role: Role) -> float:
        return 1.0 if role == "embedding" else site.width**-0.5
