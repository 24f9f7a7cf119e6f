"""Portrait: all there is to say about one design at one size, for `addnorm show` and docs/designs.md."""

from __future__ import annotations

from dataclasses import dataclass

from addnorm.arrangements import CATALOGUE, Arrangement
from addnorm.arrangements.base import Side
from addnorm.arrangements.card import Card, card
from addnorm.atlas.cost import Cost, baseline, cost
from addnorm.atlas.graph import Wiring
from addnorm.atlas.wiring import trace
from addnorm.layers.part import ROLES
from addnorm.models.build import MODES, Mode
from addnorm.models.stack import Plan


@dataclass(frozen=True)
class Row:
    """One line of the table of all designs."""

    name: str
    card: Card
    cost: Cost
    extra_parameters: int


@dataclass(frozen=True)
class Portrait:
    name: str
    mode: Mode
    depth: int
    width: int
    card: Card
    cost: Cost
    pre_ln: Cost
    numbers: dict[Side, dict[str, float]]
    gains: dict[Side, dict[str, float]]
    wiring: Wiring  # of the decoder, where there are two stacks

    def rows(self) -> list[tuple[str, str]]:
        """Constants and costs as text."""
        rows = []
        for side in self.numbers:
            for label, value in self.numbers[side].items():
                rows.append((f"{side} {label}", f"{value:.4g}"))
            for value in sorted(set(self.gains[side].values()), reverse=True):
                roles = [role for role, gain in self.gains[side].items() if gain == value]
                rows.append((f"{side} born times {value:.4g}", ", ".join(roles)))
        extra = self.cost.parameters - self.pre_ln.parameters
        share = 100.0 * extra / self.pre_ln.parameters
        rows.append(("parameters", f"{self.cost.parameters:,} ({extra:+,}, {share:+.2f} % against pre_ln)"))
        saved = self.cost.saved / self.pre_ln.saved
        rows.append(("kept for backward", f"{self.cost.saved / 1024:.0f} KiB a token ({saved:.2f} x pre_ln)"))
        rows.append(("stream", f"{self.cost.stream:g} x width between the last blocks"))
        return rows


def portrait(name: str, design: Arrangement, mode: Mode, depth: int, width: int, heads: int) -> Portrait:
    plans = MODES[mode](arrangement=design, depth=depth, width=width, heads=heads).plans()
    return Portrait(
        name,
        mode,
        depth,
        width,
        card(design),
        cost(design, mode, depth, width, heads),
        baseline(mode, depth, width, heads),
        {side: design.numbers(plan.site("feed_forward", 0, len(plan.contents) - 1)) for side, plan in plans.items()},
        {side: gains(design, plan) for side, plan in plans.items()},
        trace(design, mode, depth, width, heads),
    )


def gains(design: Arrangement, plan: Plan) -> dict[str, float]:
    """By role, those that are not one; each asked where its weights sit."""
    inside = plan.site("feed_forward", 0, len(plan.contents) - 1)
    ends = {
        "embedding": plan.site("embedding", 0),
        "position": plan.site("embedding", 0),
        "head": plan.site("head", plan.depth),
    }
    table = {role: design.gain(ends.get(role, inside), role) for role in ROLES}
    return {role: gain for role, gain in table.items() if gain != 1.0}


def overview(mode: Mode, depth: int, width: int, heads: int) -> list[Row]:
    pre_ln = baseline(mode, depth, width, heads)
    rows = []
    for name, design in CATALOGUE.items():
        paid = cost(design, mode, depth, width, heads)
        rows.append(Row(name, card(design), paid, paid.parameters - pre_ln.parameters))
    return rows
