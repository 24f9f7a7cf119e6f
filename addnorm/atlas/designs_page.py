"""docs/designs.md, made from the live catalogue: `python -m addnorm.atlas.designs_page docs/designs.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from addnorm.arrangements import CATALOGUE
from addnorm.arrangements.card import card
from addnorm.atlas import text
from addnorm.atlas.files import write_text
from addnorm.atlas.portrait import Portrait, overview, portrait
from addnorm.models.bundles import BUNDLES

DEPTH, WIDTH, HEADS = 6, 512, 8

HEAD = f"""# Designs

Made by `make docs` from the classes themselves; a test keeps it current. The same, at any size, in the terminal:
`addnorm show`, `addnorm show b2t --mode encoder_decoder --depth 18`. Numbers here: depth {DEPTH}, width {WIDTH}.

`x` is the residual stream, `F` a sub-layer (attention or feed-forward, dropout on its branch included), `norm` a
LayerNorm unless another is chosen. Warm-up: *needed* = fails without it; *kept* = its paper used one and claims
nothing; *not needed* = its paper trains without.
"""


def render() -> str:
    sections = [HEAD, table(), *(section(name) for name in CATALOGUE), bundles()]
    return "\n".join(sections)


def table() -> str:
    lines = [
        "| design | formula | warm-up | parameters against pre_ln | final norm | kept for backward | paper |",
        "|---|---|---|---:|---|---:|---|",
    ]
    rows = overview("encoder", DEPTH, WIDTH, HEADS)
    saved = {row.name: row.cost.saved for row in rows}
    for row in rows:
        final_norm = "yes" if row.cost.final_norm else "no"
        lines.append(
            f"| [{row.name}](#{row.name}) | {code(row.card.formula)} | {row.card.warm_up} "
            f"| {row.extra_parameters:+,} | {final_norm} | {saved[row.name] / saved['pre_ln']:.2f} x "
            f"| {row.card.paper} |"
        )
    return "\n".join(lines) + "\n"


def section(name: str) -> str:
    encoder = portrait(name, CATALOGUE[name], "encoder", DEPTH, WIDTH, HEADS)
    both = portrait(name, CATALOGUE[name], "encoder_decoder", DEPTH, WIDTH, HEADS)
    about = encoder.card
    lines = [
        f"## {name}",
        "",
        f"**{about.title}**: {about.summary}.",
        "",
        f"- Formula: {code(about.formula)}",
        f"- Cures: {about.cures}",
        f"- Costs: {about.costs}",
        f"- Warm-up: {about.warm_up}",
        f"- Paper: {about.paper}",
        "",
    ]
    lines += ["```text", text.draw(encoder.wiring), "```", ""]
    lines += ["| | encoder | encoder-decoder |", "|---|---|---|", *facts(encoder, both), ""]
    lines += [f"- `NOTE[DIFF]` {note}" for note in about.notes]
    return "\n".join(lines) + "\n"


def facts(encoder: Portrait, both: Portrait) -> list[str]:
    left, right = dict(encoder.rows()), dict(both.rows())
    labels = list(dict.fromkeys((*left, *right)))
    return [f"| {label} | {left.get(label, '')} | {right.get(label, '')} |" for label in labels]


def bundles() -> str:
    lines = ["## Bundles", "", 'Whole models by name: `addnorm.build("gpt2", depth=2, width=64, heads=4)`.', ""]
    lines += ["| bundle | model | design | formula |", "|---|---|---|---|"]
    for name, spec in BUNDLES.items():
        designs = list(dict.fromkeys(spec.designs().values()))
        kinds = ", ".join(design.kind for design in designs)
        lines.append(f"| {name} | {spec.kind} | {kinds} | {code(card(designs[0]).formula)} |")
    return "\n".join(lines) + "\n"


def code(formula: str) -> str:
    """A vertical bar would end a table's cell."""
    return "`" + formula.replace("|", "\\|") + "`"


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), render())
