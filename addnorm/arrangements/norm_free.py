"""Designs without norms: what a norm gives, given by how branches are born."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Connection, Site
from addnorm.arrangements.local import Local, Scale
from addnorm.layers.fixup import Shift
from addnorm.layers.part import Role
from addnorm.spec import Spec


class ReZero(Arrangement, kind="rezero"):
    """ReZero: one learned number per branch, born zero.

    Formula   x <- x + a F(x),  a = 0 at birth
    Cures     depth: every stack is the identity at birth, whatever its depth, without norms or warm-up
    Costs     1 to 2 BLEU below Post-LN in others' re-runs; unstable in fp16
    Warm-up   not needed
    Paper     Bachlechner et al. 2020, arXiv:2003.04887
    NOTE[DIFF] one number per sub-layer, as in the formula; the official code shares one among a layer's sub-layers.
    """

    def connect(self, site: Site) -> Connection:
        return Local(branch=Scale(1, born=0.0))


class TFixup(Arrangement, kind="t_fixup"):
    """T-Fixup: no norm, no warm-up; value, output, up, down and embedding born smaller, by depth.

    Formula   x <- x + F(x),  encoder weights times 0.67 N^(-1/4), decoder's and embeddings times (9 N)^(-1/4)
    Cures     Adam's early instability that warm-up was made for
    Costs     no norm to keep activations bounded later on; needs Xavier as its base
    Warm-up   not needed
    Paper     Huang et al. 2020, ICML, "Improving Transformer Optimization Through Better Initialization"
    NOTE[DIFF] a decoder without an encoder has two sub-layers per block, and takes the encoder's factor.
    NOTE[DIFF] a gated feed-forward's gate keeps gain 1: the paper has no gate.
    """

    def gain(self, site: Site, role: Role) -> float:
        if role == "embedding":
            return (9 * site.depth) ** -0.25
        if role not in ("value", "output", "up", "down"):
            return 1.0
        crossed = site.side == "decoder" and site.other_depth > 0
        return (9 * site.depth) ** -0.25 if crossed else 0.67 * site.depth**-0.25

    def refuses(self, base: Spec) -> str:
        # The official code multiplies fairseq's values by sqrt(2) to be back at plain Xavier.
        trap = base.kind == "fairseq"
        return "its factors are for plain Xavier, and fairseq's values are smaller by sqrt(2)" if trap else ""

    def connect(self, site: Site) -> Connection:
        return Local()

    def numbers(self, site: Site) -> dict[str, float]:
        return {"weights": self.gain(site, "value"), "embedding": self.gain(site, "embedding")}


class Fixup(Arrangement, kind="fixup"):
    """Fixup: the last matrix of every branch born zero, the others smaller by depth; scalar shifts and scales.

    Formula   x <- x + s F(x),  F's last matrix 0, q k v times B^(-1/6), up times B^(-1/2);  out = s (x - b)
    Cures     depth without norms: a step changes the output by the same, whatever the number of branches B
    Costs     F must carry the shifts: use the bundle `fixup`; shifts and scales want a tenth of the rate
    Warm-up   kept
    Paper     Zhang, Dauphin & Ma 2019, arXiv:1901.09321
    NOTE[DIFF] B counts the branches of both stacks that are there: 2 or 3 per layer.
    NOTE[DIFF] a gated feed-forward's gate is born as small as its up: the paper has no gate.
    NOTE[DIFF] the closing scale stands on both sides; the official code has it in the encoder alone.
    """

    def branches(self, site: Site) -> int:
        """Of both stacks. Across from a decoder stands an encoder, whose blocks have no cross-attention."""
        other_slots = site.slots - 1 if site.side == "decoder" else site.slots + 1
        return site.depth * site.slots + site.other_depth * other_slots

    def connect(self, site: Site) -> Connection:
        return Local(branch=Scale(1, born=1.0))

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        return nn.Sequential(Shift(), Scale(1, born=1.0))

    def gain(self, site: Site, role: Role) -> float:
        if role in ("output", "down", "head"):
            return 0.0
        if role in ("query", "key", "value"):  # m = 4 matrices in an attention branch
            return self.branches(site) ** (-1 / 6)
        if role in ("up", "gate"):  # m = 2 in a feed-forward
            return self.branches(site) ** (-1 / 2)
        return 1.0

    def numbers(self, site: Site) -> dict[str, float]:
        return {"B": self.branches(site), "q k v": self.gain(site, "query"), "up": self.gain(site, "up")}
