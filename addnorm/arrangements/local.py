"""Local designs: the stream is one tensor, and one formula says it all.

    h = before(x)
    x <- after(skip(x) + branch(F(h)))

| design    | before | skip        | branch            | after | close | gain                        |
|-----------|--------|-------------|-------------------|-------|-------|-----------------------------|
| post_ln   |        |             |                   | norm  |       |                             |
| pre_ln    | norm   |             |                   |       | norm  |                             |
| res_post  |        |             | norm              |       | norm  |                             |
| sandwich  | norm   |             | norm              |       | norm  |                             |
| no_norm   |        |             |                   |       |       |                             |
| no_skip   |        | (none)      |                   | norm  |       |                             |
| scaled    | norm   | constant    |                   |       | norm  |                             |
| scaled_post |      | constant    |                   | norm  |       |                             |
| deep_norm |        | constant    |                   | norm  |       | value, output, up, down     |
| admin     |        | vector      |                   | norm  |       |                             |
| rezero    |        |             | scalar, born 0    |       |       |                             |
| t_fixup   |        |             |                   |       |       | by depth                    |

The last four live in `scaling.py` and `norm_free.py`; they fill the same formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Part, same
from addnorm.spec import Float

Place = Callable[[Tensor], Tensor]


class Local(Connection):
    """x <- after(skip(x) + branch(F(before(x))))"""

    def __init__(self, before: Place = same, skip: Place = same, branch: Place = same, after: Place = same) -> None:
        super().__init__()
        self.before, self.skip, self.branch, self.after = before, skip, branch, after

    def read(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        return self.before(stream), stream

    def write(self, stream: Tensor, y: Tensor) -> Tensor:
        return self.after(self.skip(stream) + self.branch(y))


class Times(Part):
    """c x, c a constant of the design."""

    def __init__(self, constant: float) -> None:
        super().__init__()
        self.constant = constant

    def forward(self, x: Tensor) -> Tensor:
        return x * self.constant

    def extra_repr(self) -> str:
        return f"{self.constant:.4g}"


class Scale(Part):
    """s * x, s learned: one number (size 1) or one per feature (size D)."""

    def __init__(self, size: int, born: float) -> None:
        super().__init__()
        # Never 0-dimensional: sharding refuses such parameters.
        self.weight = nn.Parameter(torch.full((size,), float(born)))
        self.born = born

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        yield self.weight, self.born

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, born={self.born:.4g}"


class PostLN(Arrangement, kind="post_ln"):
    """Post-LN: normalise after the addition, on the trunk.

    Formula   x <- norm(x + F(x))
    Cures     nothing beyond it: the original; at equal, small depth at least as good as Pre-LN
    Costs     fails without warm-up, and beyond about 12 layers; gradients grow towards the output at birth
    Warm-up   needed
    Paper     Vaswani et al. 2017, arXiv:1706.03762
    """

    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Local(after=self.norm.build(site.width))


class PreLN(Arrangement, kind="pre_ln"):
    """Pre-LN: normalise what the sub-layer reads; the trunk is never touched.

    Formula   x <- x + F(norm(x));  out = norm(x)
    Cures     Post-LN's need for warm-up, and its failure when deep
    Costs     the stream grows with depth, so that late layers add little; often worse than Post-LN where that trains
    Warm-up   not needed
    Paper     Xiong et al. 2020, arXiv:2002.04745
    """

    norm: Norm = LayerNorm()
    first_norm: Norm | None = None
    """The very first norm of the stack, where it differs: `NoNorm()` makes FT-Transformer's trunk."""

    def connect(self, site: Site) -> Connection:
        norm = self.norm if self.first_norm is None or site.index > 0 else self.first_norm
        return Local(before=norm.build(site.width))

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)


class ResPost(Arrangement, kind="res_post"):
    """Res-post-norm: normalise what the sub-layer says, before it is added.

    Formula   x <- x + norm(F(x));  out = norm(x)
    Cures     growth of activations with depth: every branch adds the same, mild variance
    Costs     sub-layers read an un-normalised stream; works best with QK-norm (OLMo 2)
    Warm-up   kept
    Paper     Tay et al. 2020, arXiv:2009.06732; Swin V2, arXiv:2111.09883; OLMo 2, arXiv:2501.00656
    NOTE[DIFF] Swin V2 births the norm's gain 0; here it is born 1, as in OLMo 2.
    """

    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Local(branch=self.norm.build(site.width))

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)


class Sandwich(Arrangement, kind="sandwich"):
    """Sandwich-LN: normalise what the sub-layer reads and what it says.

    Formula   x <- x + norm_out(F(norm_in(x)));  out = norm(x)
    Cures     Pre-LN's massive activations: the stream's variance grows linearly at most
    Costs     twice the norms
    Warm-up   kept
    Paper     Ding et al. 2021 (CogView), arXiv:2105.13290
    NOTE[DIFF] CogView divides a norm's input by its largest entry against fp16 overflow; norms here compute in fp32.
    """

    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Local(before=self.norm.build(site.width), branch=self.norm.build(site.width))

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)


class NoNormalisation(Arrangement, kind="no_norm"):
    """No norm: the plain residual stack, a control.

    Formula   x <- x + F(x)
    Cures     nothing: it shows what norms are for
    Costs     activations and gradients grow with depth as the weights decide
    Warm-up   needed
    Paper     He et al. 2015, arXiv:1512.03385 (the skip alone)
    """

    def connect(self, site: Site) -> Connection:
        return Local()


class NoSkip(Arrangement, kind="no_skip"):
    """No skip: the plain stack, a control.

    Formula   x <- norm(F(x))
    Cures     nothing: it shows what skips are for
    Costs     gets worse with depth; attention without a skip collapses towards one direction
    Warm-up   needed
    Paper     He et al. 2015, arXiv:1512.03385 (the plain net)
    """

    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Forgetful(self.norm.build(site.width))


class Forgetful(Connection):
    """x <- after(F(x)): the only connection that drops what it read."""

    def __init__(self, after: Place) -> None:
        super().__init__()
        self.after = after

    def read(self, stream: Tensor) -> tuple[Tensor, tuple[()]]:
        return stream, ()

    def write(self, stream: tuple[()], y: Tensor) -> Tensor:
        return self.after(y)


class Scaled(Arrangement, kind="scaled"):
    """Scaled skip: Pre-LN whose skip is multiplied by a constant, a control.

    Formula   x <- c x + F(norm(x));  out = norm(x)
    Cures     nothing: it shows that a skip must be the identity
    Costs     the skip path over L sub-layers is c^L: it vanishes below 1 and explodes above
    Warm-up   kept
    Paper     He et al. 2016, arXiv:1603.05027; Nguyen & Salazar 2019, arXiv:1910.05895
    """

    constant: Float = 0.9
    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Local(before=self.norm.build(site.width), skip=Times(self.constant))

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.norm.build(site.width)

    def numbers(self, site: Site) -> dict[str, float]:
        return {"c": self.constant, "c^L": self.constant ** (site.depth * site.slots)}


class ScaledPost(Arrangement, kind="scaled_post"):
    """Scaled skip, Post-LN form: a control.

    Formula   x <- norm(c x + F(x))
    Cures     nothing by itself; DeepNorm and Admin are this with c chosen well
    Costs     a c that is too large makes every layer small, one that is too small forgets the input
    Warm-up   needed
    Paper     Nguyen & Salazar 2019, arXiv:1910.05895
    """

    constant: Float = 0.9
    norm: Norm = LayerNorm()

    def connect(self, site: Site) -> Connection:
        return Local(skip=Times(self.constant), after=self.norm.build(site.width))

    def numbers(self, site: Site) -> dict[str, float]:
        return {"c": self.constant}
