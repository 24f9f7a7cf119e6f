"""Designs whose stream remembers every layer: (x, y_0, y_1, ..., y_l)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.arrangements.bottom import top, twice
from addnorm.arrangements.local import Local
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Part, same

History = tuple[Tensor, ...]


class DLCL(Arrangement, kind="dlcl"):
    """DLCL: every layer reads a learned combination of all layers before it (Pre-LN inside).

    Formula   x_{l+1} = sum_{k<=l} W[l,k] norm_k(y_k);  y_{l+1} = PreLN-layer(x_{l+1});  out = norm(x_{depth+1})
    Cures     the loss of early layers' features in deep encoders; eases gradients to 30 layers
    Costs     every layer's output stays alive; work and weights of the combinations grow with depth squared
    Warm-up   kept
    Paper     Wang et al. 2019, arXiv:1906.01787
    NOTE[DIFF] W's row l is born 1/(l+1), without softmax, one number per pair: the official code's defaults.
    """

    norm: Norm = LayerNorm()

    def form(self) -> str:
        return "(x, past...)"

    def open(self, site: Site) -> Callable[[Tensor], History]:
        return twice

    def connect(self, site: Site) -> Connection:
        return Remembering(
            inner=Local(before=self.norm.build(site.width)),
            recall=Combine(site.layer + 1) if site.first_slot else top,
            remember=Append(self.norm.build(site.width)) if site.last_slot else keep,
        )

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return Combine(site.depth + 1, self.norm.build(site.width))


class DLCLPost(Arrangement, kind="dlcl_post"):
    """DLCL, post-norm form: the combination is normalised (Post-LN inside).

    Formula   x_{l+1} = norm_{l+1}(sum_{k<=l} W[l,k] y_k);  y_{l+1} = PostLN-layer(x_{l+1});  out = x_{depth+1}
    Cures     deep Post-LN encoders that fail without it (25 layers in the paper)
    Costs     as DLCL
    Warm-up   kept
    Paper     Wang et al. 2019, arXiv:1906.01787
    NOTE[DIFF] the first layer reads W[0,0] y_0 without a norm: the official code does not normalise the embedding.
    """

    norm: Norm = LayerNorm()

    def form(self) -> str:
        return "(x, past...)"

    def open(self, site: Site) -> Callable[[Tensor], History]:
        return twice

    def connect(self, site: Site) -> Connection:
        norm = self.norm.build(site.width) if site.layer > 0 else same
        return Remembering(
            inner=Local(after=self.norm.build(site.width)),
            recall=Combine(site.layer + 1, norm) if site.first_slot else top,
            remember=Append(same) if site.last_slot else keep,
        )

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return Combine(site.depth + 1, self.norm.build(site.width))


class Remembering(Connection):
    """An inner connection between a recall of the past and an addition to it."""

    def __init__(
        self, inner: Local, recall: Callable[[Any], Tensor], remember: Callable[[Tensor, History], History]
    ) -> None:
        super().__init__()
        self.inner, self.recall, self.remember = inner, recall, remember

    def read(self, stream: History) -> tuple[Tensor, History]:
        h, x = self.inner.read(self.recall(stream))
        return h, (x, *stream[1:])

    def write(self, stream: History, y: Tensor) -> History:
        return self.remember(self.inner.write(stream[0], y), stream[1:])

    def view(self, stream: History) -> Tensor:
        return stream[0]


class Combine(Part):
    """norm(sum_k W[k] y_k) over the past, W born the average."""

    def __init__(self, count: int, norm: Callable[[Tensor], Tensor] = same) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((count,), 1.0 / count))
        self.norm = norm

    def forward(self, stream: History) -> Tensor:
        x = stream[1] * self.weight[0]
        for k, y in enumerate(stream[2:], start=1):
            x = x + y * self.weight[k]
        return self.norm(x)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, 1.0 / len(self.weight)

    def extra_repr(self) -> str:
        return f"{len(self.weight)} layers"


class Append(Part):
    """A layer ends: its output, normalised, joins the past."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, past: History) -> History:
        return (x, *past, self.norm(x))


def keep(x: Tensor, past: History) -> History:
    """Inside a layer: the past stays as it is."""
    return (x, *past)
