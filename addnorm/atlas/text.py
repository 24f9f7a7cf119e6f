"""A wiring for the terminal, in box-drawing characters or plain ASCII."""

from __future__ import annotations

from addnorm.atlas.graph import NodeKind, Wiring
from addnorm.atlas.lanes import Layout, Row, arrange

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8

# By which of the four directions a line leaves in; thick lanes are double.
THIN = dict(zip(range(16), " ╵╷│╴╯╮┤╶╰╭├─┴┬┼", strict=True))
THICK = dict(zip(range(16), " ║║║─╜╖╢─╙╓╟─╨╥╫", strict=True))
SIGNS: dict[NodeKind, str] = {
    "norm": "●",
    "sublayer": "■",
    "scale": "◇",
    "gate": "◐",
    "mix": "◆",
    "function": "○",
}  # fmt: skip

PLACE_COLUMN = 26

PLAIN = str.maketrans(
    {
        **dict.fromkeys("╵╷│", "|"),
        **dict.fromkeys("╴╶─", "-"),
        **dict.fromkeys("├┤┼", "+"),
        **dict.fromkeys("╮╭┬", "."),
        **dict.fromkeys("╯╰┴", "'"),
        **dict.fromkeys("║╟╢╫╜╖╙╓╨╥", "H"),
        **{"┊": ":", "●": "o", "■": "#", "◇": "*", "◐": "%", "◆": "@", "○": "~", "⊕": "&", "⊖": "&"},
        **{"×": "x", "÷": "/", "−": "-", "α": "alpha", "ω": "omega", "Σ": "sum", "′": "'", "…": "..."},
    }
)


def draw(wiring: Wiring, ascii_only: bool = False) -> str:
    """One line for each node, top to bottom; on the right, the node's place in the design's formula."""
    layout = arrange(wiring)
    lines = [(line(row, layout), row.node.place if row.node else "") for row in layout.rows]
    if ascii_only:  # before the margin is measured: some letters become words
        lines = [(plain(left), plain(place)) for left, place in lines]
    margin = max([PLACE_COLUMN, *(len(left) + 2 for left, place in lines if place)])
    return "\n".join(f"{left:{margin}}{place}".rstrip() for left, place in lines)


def plain(text: str) -> str:
    return text.translate(PLAIN).encode("ascii", "replace").decode()


def line(row: Row, layout: Layout) -> str:
    cells = "".join(cell(row, column) for column in range(layout.columns)).rstrip()
    if row.node is None:
        return f" {cells}  {row.note}".rstrip()
    if row.node.kind in ("input", "output"):  # nothing is alive to their right: their name stands in the lane
        return f" {cells}{row.node.label}" if row.column == 0 else f" {cells:{2 * row.column}}{row.node.label}"
    return f" {cells} {row.node.label}"


def cell(row: Row, column: int) -> str:
    """Two characters: what stands in the lane, and what runs to the next."""
    arms, thick = arms_at(row, column)
    sign = (THICK if thick else THIN)[arms]
    if row.node is not None and row.column == column:
        sign = "" if row.node.kind in ("input", "output") else SIGNS.get(row.node.kind, sign)
        # Where a lane gives and goes on, ├─┤ would not say on which side the sum is.
        if row.node.kind == "add" and any(row.goes_on(link.source) for link in row.links):
            sign = "⊕" if row.node.label == "+" else "⊖"
    elif row.gap and arms:
        sign = "┊"
    reaches_on = any(min(link.source, link.target) <= column < max(link.source, link.target) for link in row.links)
    return sign + ("─" if reaches_on else " ")


def arms_at(row: Row, column: int) -> tuple[int, bool]:
    lanes = [lane for lane in (*row.above, *row.below) if lane.column == column]
    arms = UP * any(lane in row.above for lane in lanes) | DOWN * any(lane in row.below for lane in lanes)
    touching = [link for link in row.links if column in (link.source, link.target)]
    for link in touching:
        arms |= RIGHT if max(link.source, link.target) > column else LEFT
    # A line that only passes goes behind a lane, so that a crossing does not look like a joint.
    if any(link.covers(column) for link in row.links) and (touching or not lanes):
        arms |= LEFT | RIGHT
    return arms, any(lane.thick for lane in lanes)
