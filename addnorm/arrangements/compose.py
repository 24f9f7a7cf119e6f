"""Designs made of designs: wrap one and pass the verbs on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from addnorm.arrangements.base import Arrangement, Connection, Site, Stream
from addnorm.arrangements.local import PostLN, PreLN
from addnorm.layers.part import Role
from addnorm.spec import Share, Spec, SpecError


class ByLayer(Arrangement, kind="by_layer"):
    """Mix-LN: one design for the first layers, another for the rest.

    Formula   Post-LN for the first floor(a N) layers, Pre-LN after them;  out = norm(x)
    Cures     Pre-LN's idle late layers and Post-LN's idle early ones: gradients of like size everywhere
    Costs     the share a is one more number to choose; re-runs by others diverge at 350 M parameters and above
    Warm-up   kept
    Paper     Li, Yin & Liu 2024, arXiv:2412.13795
    NOTE[DIFF] any two designs whose streams have one form may be joined; Post-LN and Pre-LN at a = 1/4 are the paper's.
    NOTE[DIFF] in an encoder-decoder each stack mixes by its own depth: the paper has decoders alone.
    """

    first: Arrangement = PostLN()
    rest: Arrangement = PreLN()
    share: Share = 0.25
    """How much of the depth is `first`'s: the paper's a."""

    def model_post_init(self, context: Any) -> None:
        if self.first.form() != self.rest.form():
            raise SpecError(
                f"by_layer: wanted two designs whose streams have one form, came first={self.first.kind} with "
                f"{self.first.form()} and rest={self.rest.kind} with {self.rest.form()}; choose two that agree"
            )

    def first_layers(self, depth: int) -> int:
        return math.floor(self.share * depth + 1e-9)  # 0.29 * 100 is 28.999...

    def of(self, site: Site) -> Arrangement:
        return self.first if site.layer < self.first_layers(site.depth) else self.rest

    def form(self) -> str:
        return self.first.form()

    @property
    def basis_free(self) -> bool:
        return self.first.basis_free and self.rest.basis_free

    def open(self, site: Site) -> Callable[[Tensor], Stream]:
        return self.of(site).open(site)

    def connect(self, site: Site) -> Connection:
        return self.of(site).connect(site)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.of(site).close(site)

    def gain(self, site: Site, role: Role) -> float:
        return self.of(site).gain(site, role)

    def constrain(self, site: Site, role: Role) -> Callable[[Tensor], None] | None:
        return self.of(site).constrain(site, role)

    def rate(self, site: Site, role: Role) -> float:
        return self.of(site).rate(site, role)

    def refuses(self, base: Spec) -> str:
        return self.first.refuses(base) or self.rest.refuses(base)

    def numbers(self, site: Site) -> dict[str, float]:
        return {"first layers": self.first_layers(site.depth), **self.of(site).numbers(site)}


class Rescaled(Arrangement, kind="rescaled"):
    """Scaled init: any design, its output and down matrices born smaller by depth.

    Formula   the inner design's; output and down times (number of sub-layers)^(-1/2)
    Cures     the growth of a Pre-LN stream's variance with depth, at birth
    Costs     nothing; must not be combined with designs that scale the same matrices
    Warm-up   kept
    Paper     Radford et al. 2019 (GPT-2); Shoeybi et al. 2019 (Megatron), arXiv:1909.08053
    """

    inner: Arrangement = PreLN()

    def form(self) -> str:
        return self.inner.form()

    @property
    def basis_free(self) -> bool:
        return self.inner.basis_free

    def open(self, site: Site) -> Callable[[Tensor], Stream]:
        return self.inner.open(site)

    def connect(self, site: Site) -> Connection:
        return self.inner.connect(site)

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return self.inner.close(site)

    def gain(self, site: Site, role: Role) -> float:
        rescale = (site.depth * site.slots) ** -0.5 if role in ("output", "down") else 1.0
        return self.inner.gain(site, role) * rescale

    def constrain(self, site: Site, role: Role) -> Callable[[Tensor], None] | None:
        return self.inner.constrain(site, role)

    def rate(self, site: Site, role: Role) -> float:
        return self.inner.rate(site, role)

    def refuses(self, base: Spec) -> str:
        return self.inner.refuses(base)

    def numbers(self, site: Site) -> dict[str, float]:
        return {"output, down": self.gain(site, "output"), **self.inner.numbers(site)}
