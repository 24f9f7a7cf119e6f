"""Card: what a design's docstring says, as data. The docstring is the only place where it is written."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from addnorm.arrangements.base import Arrangement

LABELS = ("Formula", "Cures", "Costs", "Warm-up", "Paper", "NOTE[DIFF]")
WARM_UPS = ("needed", "kept", "not needed")
"""needed: fails without. kept: its paper used one and claims nothing. not needed: its paper trains without."""


@dataclass(frozen=True)
class Card:
    title: str
    summary: str
    formula: str
    cures: str
    costs: str
    warm_up: str
    paper: str
    notes: tuple[str, ...]  # where the code departs from the paper


def card(design: Arrangement) -> Card:
    """Read the docstring: a title line, then labelled lines, each of which may go on in the next."""
    text = inspect.getdoc(type(design)) or ""
    head, *lines = text.splitlines() or [""]
    title, _, summary = head.rstrip(".").partition(": ")
    found: dict[str, list[str]] = {label: [] for label in LABELS}
    pattern = re.compile(rf"({'|'.join(map(re.escape, LABELS))})\s+(.*)")
    entries: list[str] | None = None
    for line in lines:
        begins = pattern.match(line)
        if begins:
            entries = found[begins[1]]
            entries.append(begins[2])
        elif entries and line.strip():
            entries[-1] += " " + line.strip()
    once = {label: " ".join(found[label]) for label in LABELS}
    return Card(
        title or type(design).__name__,
        summary,
        once["Formula"],
        once["Cures"],
        once["Costs"],
        once["Warm-up"],
        once["Paper"],
        tuple(note.rstrip(".") + "." for note in found["NOTE[DIFF]"]),
    )
