"""Post-LN made deep by weighing the skip: a constant (DeepNorm) or a profiled vector (Admin).

x <- norm(w x + F(x)),  w > 1:  each layer moves the stream by a bounded step
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.arrangements.local import Local, Place, Scale, Times
from addnorm.layers.norms import LayerNorm, Norm
from addnorm.layers.part import Role
from addnorm.spec import Positive, Spec


class DeepNorm(Arrangement, kind="deep_norm"):
    """DeepNorm: a constant weight on the skip, and smaller branches at birth, both by depth.

    Formula   x <- norm(alpha x + F(x)),  value, output, up and down born times beta
    Cures     Post-LN's exploding updates: the change of the model per step is bounded at any depth
    Costs     branches are small at first, which slows learning at moderate depth
    Warm-up   kept
    Paper     Wang et al. 2022, arXiv:2203.00555
    NOTE[DIFF] alpha and beta may be set by hand; by default they are the paper's, from both stacks' depths.
    NOTE[DIFF] a gated feed-forward's gate keeps gain 1, like query and key: it chooses, it does not carry.
    """

    norm: Norm = LayerNorm()
    alpha: Positive | None = None
    beta: Positive | None = None

    def scales(self, site: Site) -> tuple[float, float]:
        """alpha and beta of that side; N = encoder layers, M = decoder layers."""
        if site.other_depth == 0:
            alpha, beta = (2 * site.depth) ** 0.25, (8 * site.depth) ** -0.25
        elif site.side == "encoder":
            mixed = (site.depth**4 * site.other_depth) ** (1 / 16)
            alpha, beta = 0.81 * mixed, 0.87 / mixed
        else:
            alpha, beta = (3 * site.depth) ** 0.25, (12 * site.depth) ** -0.25
        return self.alpha or alpha, self.beta or beta

    def connect(self, site: Site) -> Connection:
        alpha, _ = self.scales(site)
        return Local(skip=Times(alpha), after=self.norm.build(site.width))

    def gain(self, site: Site, role: Role) -> float:
        _, beta = self.scales(site)
        return beta if role in ("value", "output", "up", "down") else 1.0

    def numbers(self, site: Site) -> dict[str, float]:
        alpha, beta = self.scales(site)
        return {"alpha": alpha, "beta": beta}


# -- Admin -------------------------------------------------------------------------------------------------


class Profile(Spec, family="profile"):
    """How Admin's omega is born: from one batch, or from the number of sub-layers."""

    at_once: ClassVar[bool] = True
    """Whether an omega is used in the very forward that profiles it, so that later sites see its effect."""

    def birth(self, sublayers: int) -> float:
        """Before any batch is seen."""
        return 1.0

    @abstractmethod
    def observe(self, carry: float, first: bool, x: Tensor, y: Tensor) -> tuple[float | None, float]:
        """omega of this site (None: keep the birth value), and the carry for the next. x, y before omega is used."""


class VarianceSum(Profile, kind="variance_sum"):
    """omega_i = sqrt(1 + sum_{j<i} Var f_j): the 1 is the embedding's share."""

    def observe(self, carry: float, first: bool, x: Tensor, y: Tensor) -> tuple[float | None, float]:
        return math.sqrt(carry), carry + variance(y)


class Recursion(Profile, kind="recursion"):
    """The official code: omega_i = r, then r <- sqrt(Var(omega_i x) + Var f_i), r starting at 1."""

    def observe(self, carry: float, first: bool, x: Tensor, y: Tensor) -> tuple[float | None, float]:
        return carry, math.sqrt(carry * carry * variance(x) + variance(y))


class LiteralSum(Profile, kind="literal_sum"):
    """The paper to the letter: omega_i = sqrt(sum_{j<i} Var f_j), omega_1 = 1, all variances seen with omega = 1.

    It forgets the embedding.
    """

    at_once: ClassVar[bool] = False

    def observe(self, carry: float, first: bool, x: Tensor, y: Tensor) -> tuple[float | None, float]:
        return math.sqrt(carry), variance(y) + (0.0 if first else carry)


class ByCount(Profile, kind="by_count"):
    """admin-torch: no batch at all. The output change grows like log n, or not at all, or like n (plain Post-LN)."""

    growth: Literal["log", "constant", "linear"] = "log"

    def birth(self, sublayers: int) -> float:
        n = sublayers
        return {"log": math.sqrt((n + 1) / math.log(n + 1) - 1), "constant": math.sqrt(n), "linear": 1.0}[self.growth]

    def observe(self, carry: float, first: bool, x: Tensor, y: Tensor) -> tuple[float | None, float]:
        return None, carry


def variance(x: Tensor) -> float:
    """Over all elements, in float32 or better: the population's, as the official code takes it."""
    wide = x.detach().float() if x.element_size() < 4 else x.detach()
    return wide.var(correction=0).item()


class Admin(Arrangement, kind="admin"):
    """Admin: a learned weight on the skip, born from the variance that the branches before it add.

    Formula   x <- norm(omega * x + F(x)),  omega_i = sqrt(1 + sum_{j<i} Var F_j) at birth, one vector per sub-layer
    Cures     Post-LN's amplification of weight changes with depth, O(N) -> O(log N), and keeps its quality
    Costs     one forward on a batch before training: `addnorm.calibrate(model, batch)`; D parameters per sub-layer
    Warm-up   kept
    Paper     Liu et al. 2020, arXiv:2004.08249
    NOTE[DIFF] the paper's sum leaves out the embedding's 1, and deep stacks then do not train; it is `literal_sum`.
    NOTE[DIFF] the official code's sequential estimate is `recursion`; admin-torch's count of sub-layers is `by_count`.
    """

    norm: Norm = LayerNorm()
    profile: Profile = VarianceSum()

    def connect(self, site: Site) -> Connection:
        return AdminConnection(self, site)

    def numbers(self, site: Site) -> dict[str, float]:
        return {"omega before calibration": self.profile.birth(site.depth * site.slots)}


class AdminConnection(Connection):
    """A Local connection whose skip can be calibrated."""

    def __init__(self, design: Admin, site: Site) -> None:
        super().__init__()
        self.skip = Scale(site.width, design.profile.birth(site.depth * site.slots))
        self.after: Place = design.norm.build(site.width)
        self.profile, self.first = design.profile, site.index == 0
        self.pending: float | None = None  # an omega that waits for the calibrating forward to end

    def read(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        return stream, stream

    def write(self, stream: Tensor, y: Tensor) -> Tensor:
        return self.after(self.skip(stream) + y)

    def calibrate(self, carry: float, x: Tensor, y: Tensor) -> float:
        omega, carry = self.profile.observe(carry, self.first, x, y)
        if omega is not None:
            self.pending = omega
            self.skip.weight.data.fill_(omega if self.profile.at_once else 1.0)
        return carry

    def settle(self) -> None:
        if self.pending is not None:
            self.skip.weight.data.fill_(self.pending)
            self.pending = None
