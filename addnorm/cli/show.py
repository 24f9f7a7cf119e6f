"""addnorm show: all designs in a table, or one of them in full."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from addnorm.arrangements import CATALOGUE
from addnorm.arrangements.card import card
from addnorm.atlas import svg, text
from addnorm.atlas.files import write_text
from addnorm.atlas.portrait import Portrait, overview, portrait
from addnorm.cli.console import console, speaks_unicode
from addnorm.models.build import MODES, Mode
from addnorm.models.bundles import BUNDLES
from addnorm.spec import SpecError, nearest

WIDE = 140
"""Columns from which formulas fit into the table."""


def run(
    name: Annotated[str | None, typer.Argument(help="A design or a bundle; nothing: the table of all.")] = None,
    mode: Annotated[str, typer.Option(help="encoder, decoder or encoder_decoder.")] = "encoder",
    depth: Annotated[int, typer.Option(min=1, help="Layers (of each stack).")] = 6,
    width: Annotated[int, typer.Option(min=1, help="Features of the stream.")] = 512,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 8,
    svg_file: Annotated[Path | None, typer.Option("--svg", help="Write the picture as an SVG file.")] = None,
) -> None:
    if mode not in MODES:
        raise SpecError(f"unknown mode {mode!r}: {nearest(mode, MODES)}")
    checked: Mode = mode  # type: ignore[assignment]
    if name is None:
        if svg_file is not None:
            raise SpecError("--svg draws one design; name it: addnorm show b2t --svg b2t.svg")
        show_all(checked, depth, width, heads)
    elif name in CATALOGUE:
        show_one(portrait(name, CATALOGUE[name], checked, depth, width, heads), svg_file)
    elif name in BUNDLES:
        show_bundle(name, svg_file)
    else:
        raise SpecError(f"unknown design or bundle {name!r}: {nearest(name, [*CATALOGUE, *BUNDLES])}")


def show_all(mode: Mode, depth: int, width: int, heads: int) -> None:
    lines: list[tuple[str, Text]] = []
    # A formula wants a line of its own unless the terminal is wide.
    wide = console.width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
    for title in ("design", *(["formula"] if wide else []), "warm-up", "parameters", "final norm", "paper"):
        table.add_column(title, justify="right" if title == "parameters" else "left", no_wrap=title != "formula")
    for row in overview(mode, depth, width, heads):
        formula = Text(row.card.formula, style="cyan")
        facts = (
            Text(row.card.warm_up),
            Text(f"{row.extra_parameters:+,}" if row.extra_parameters else "="),
            Text("yes" if row.cost.final_norm else "no"),
            Text(re.split(r"(?<=\b(?:19|20)\d\d)\b", row.card.paper)[0]),  # authors and year; the rest when asked
        )
        table.add_row(Text(row.name, style="bold"), *([formula] if wide else []), *facts)
        if not wide:
            lines.append((row.name, formula))
    console.print(table)
    if lines:
        formulas = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for name, formula in lines:
            formulas.add_row(Text(name, style="bold"), formula)
        console.print(formulas)
        console.print()
    console.print(
        f"Parameters: more or fewer than pre_ln, {mode}, depth {depth}, width {width}. Warm-up: needed = fails without "
        "it; kept = its paper used one and claims nothing; not needed = its paper trains without.\n"
        f"One in full: addnorm show b2t. Bundles (whole models): {', '.join(BUNDLES)}.",
        style="dim",
        markup=False,
        highlight=False,
    )


def show_one(seen: Portrait, svg_file: Path | None) -> None:
    about = seen.card
    console.print(Text(f"{seen.name}: {about.title}, {about.summary}", style="bold"))
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for label, value in (
        ("formula", about.formula),
        ("cures", about.cures),
        ("costs", about.costs),
        ("warm-up", about.warm_up),
        ("final norm", "yes" if seen.cost.final_norm else "no"),
        ("paper", about.paper),
    ):
        facts.add_row(Text(label, style="dim"), Text(value))
    console.print(facts)
    console.print()
    console.print(Text(text.draw(seen.wiring, ascii_only=not speaks_unicode())), soft_wrap=True)
    console.print()
    numbers = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for label, value in seen.rows():
        numbers.add_row(Text(label, style="dim"), Text(value))
    console.print(Text(f"at {seen.mode}, depth {seen.depth}, width {seen.width}", style="bold"))
    console.print(numbers)
    for note in about.notes:
        console.print(Text(f"NOTE[DIFF] {note}", style="yellow"))
    if svg_file is not None:
        write_text(svg_file, svg.draw(seen.wiring, about.title, about.formula))
        console.print(f"wrote {svg_file}", markup=False, highlight=False)


def show_bundle(name: str, svg_file: Path | None) -> None:
    if svg_file is not None:
        raise SpecError(f"--svg draws a design, and {name} is a bundle; name its design instead")
    spec = BUNDLES[name]
    console.print(Text(f"{name}: a whole model of kind {spec.kind}", style="bold"))
    for side, design in spec.designs().items():
        console.print(Text(f"{side}: {design.kind}   {card(design).formula}"))
    console.print(spec.to_json(), markup=False, soft_wrap=True)
    console.print(f'addnorm.build("{name}", depth=2, width=64, heads=4)', style="dim", markup=False, highlight=False)
