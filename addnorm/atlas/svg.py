"""A wiring as a self-contained SVG, from bottom to top as in the papers' figures.

    frame     the rows of a drawn block, with how many blocks are like it
    line      a lane's straight stretch, or the elbow by which it leaves or joins another
    node      a box with its name; a circle for a sum

Lengths are in pixels. Along the flow they are counted from the input (`along`) and turned into y when written.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from html import escape

from addnorm.atlas.graph import Node, Span, Wiring
from addnorm.atlas.lanes import Lane, Layout, Link, Row, arrange

LETTER = 7.3  # a generous mean width: fonts differ from screen to screen
SMALL_LETTER = 6.6
TITLE_LETTER = 9.6
BOX = 28.0
CIRCLE = 10.0
ARROW = 6.0
ELBOW = 10.0
GAP = 24.0  # between two columns
MARGIN = 24.0

STYLE = """
.wiring text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-size:13px}
.wiring .paper{fill:#ffffff}
.wiring text{fill:#1f2328}
.wiring .title{font-size:16px;font-weight:600}
.wiring .formula{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
.wiring .formula,.wiring .place,.wiring .count{fill:#59636e}
.wiring .place,.wiring .count{font-size:12px}
.wiring .line,.wiring .thick,.wiring .halo,.wiring .core{fill:none;stroke-linejoin:round}
.wiring .line{stroke:#59636e;stroke-width:1.6}
.wiring .thick{stroke:#59636e;stroke-width:6}
.wiring .core{stroke:#ffffff;stroke-width:3}
.wiring .halo{stroke:#ffffff;stroke-width:9}
.wiring .gap{stroke-dasharray:2 4}
.wiring .head,.wiring .dot{fill:#59636e}
.wiring .frame{fill:none;stroke:#b7bfc8;stroke-width:1.2;stroke-dasharray:5 4}
.wiring .box{stroke-width:1.2;fill:#f6f8fa;stroke:#818b98}
.wiring .norm .box{fill:#fff3c4;stroke:#c9a227}
.wiring .sublayer .box{fill:#d7f0e2;stroke:#3c9a6b}
.wiring .self_attention .box{fill:#ffdfc2;stroke:#d9822b}
.wiring .cross_attention .box{fill:#ffd6dc;stroke:#d1576b}
.wiring .feed_forward .box{fill:#cfe5fb;stroke:#3f83c8}
.wiring .gate .box{fill:#dff3d8;stroke:#5a9e45}
.wiring .mix .box{fill:#e9dffa;stroke:#8a63d2}
.wiring .sign{stroke:#1f2328;stroke-width:1.6}
@media (prefers-color-scheme:dark){
.wiring .paper{fill:#0d1117}
.wiring text{fill:#e6edf3}
.wiring .formula,.wiring .place,.wiring .count{fill:#9aa4af}
.wiring .line,.wiring .thick{stroke:#9aa4af}
.wiring .core,.wiring .halo{stroke:#0d1117}
.wiring .head,.wiring .dot{fill:#9aa4af}
.wiring .frame{stroke:#4a525b}
.wiring .box{fill:#21262d;stroke:#8b949e}
.wiring .norm .box{fill:#4a3d0d;stroke:#c9a227}
.wiring .sublayer .box{fill:#12402a;stroke:#3c9a6b}
.wiring .self_attention .box{fill:#5a3210;stroke:#d9822b}
.wiring .cross_attention .box{fill:#5a1f2b;stroke:#d1576b}
.wiring .feed_forward .box{fill:#143a63;stroke:#5b9bd8}
.wiring .gate .box{fill:#22421a;stroke:#6fb858}
.wiring .mix .box{fill:#3a2763;stroke:#a07fe0}
.wiring .sign{stroke:#e6edf3}
}
"""


def draw(wiring: Wiring, title: str, formula: str) -> str:
    """The picture as the text of one SVG element; works in a file of its own and inside an HTML page."""
    layout = arrange(wiring)
    header = [*textwrap.wrap(title, 52)], formula_lines(formula)
    return Picture(wiring, layout, *header).text(title)


def formula_lines(formula: str) -> list[str]:
    """One clause to a line. The semicolon of [x ; y], with a space before it, parts no clauses."""
    clauses = [clause.strip() for clause in re.split(r"(?<! );", formula.replace("<-", "←")) if clause.strip()]
    return [line for clause in clauses for line in textwrap.wrap(clause, 66, subsequent_indent="    ")]


@dataclass(frozen=True)
class Straight:
    """A stretch of a lane between two lengths along the flow."""

    column: int
    start: float
    end: float
    thick: bool
    gap: bool = False


class Picture:
    def __init__(self, wiring: Wiring, layout: Layout, title: list[str], formula: list[str]) -> None:
        self.wiring, self.layout, self.title, self.formula = wiring, layout, title, formula
        self.starts = [0.0]
        for row in layout.rows:
            self.starts.append(self.starts[-1] + height(row))
        self.header = MARGIN + 22 * len(title) + 17 * len(formula) + 14
        counts = [counted(span, wiring) for span in wiring.spans]
        places = [row.node.place for row in layout.rows if row.node] + [row.note for row in layout.rows if row.gap]
        before, after = max(map(len, counts)) * SMALL_LETTER + 8, 10 + max(map(len, places)) * SMALL_LETTER
        framed = 32 + sum(2 * half for half in self.halves()) + GAP * (layout.columns - 1)
        written = [len(line) * TITLE_LETTER for line in title] + [len(line) * LETTER for line in formula]
        self.width = 2 * MARGIN + max([before + framed + after, *written])
        self.left = (self.width - before - framed - after) / 2 + before  # of the frames; the whole stands in the middle
        self.right = self.left + framed
        self.x = self.columns(self.left + 16)
        self.height = self.header + self.starts[-1] + MARGIN
        self.straights: list[Straight] = []
        self.under: list[str] = []  # what lanes pass in front of
        self.over: list[str] = []
        for row, start in zip(layout.rows, self.starts, strict=False):
            self.add_row(row, start)

    # -- where things are --

    def halves(self) -> list[float]:
        halves = [CIRCLE] * self.layout.columns
        for row in self.layout.rows:
            if row.node is not None:
                halves[row.column] = max(halves[row.column], half_width(row.node))
        return halves

    def columns(self, left: float) -> list[float]:
        found: list[float] = []
        edge = left
        for half in self.halves():
            found.append(edge + half)
            edge += 2 * half + GAP
        return found

    def y(self, along: float) -> float:
        return self.height - MARGIN - along

    # -- rows --

    def add_row(self, row: Row, start: float) -> None:
        end, middle = start + height(row), start + height(row) / 2
        if row.node is None:
            for lane in row.above:
                self.straights.append(Straight(lane.column, start, end, lane.thick, row.gap))
            for link in row.links:
                self.under.append(self.leaving(link, middle, end))
                self.over.append(self.dot(link, middle))
            self.under += self.bridges(row, middle)
            if row.gap:
                self.over.append(self.written("place", self.right + 10, self.y(middle) + 4, row.note))
            return
        reach = half_height(row.node)
        for lane in sorted(row.above, key=lambda lane: lane.thick):  # where two meet, the thick one is seen
            self.arrive(row, lane, start, end, middle, reach)
        for lane in row.below:
            if lane.column == row.column:
                self.straights.append(Straight(lane.column, middle + reach, end, lane.thick))
        self.under += self.bridges(row, middle)
        self.over.append(self.node(row, middle))
        if row.node.place:
            self.over.append(self.written("place", self.right + 10, self.y(middle) + 4, row.node.place))

    def arrive(self, row: Row, lane: Lane, start: float, end: float, middle: float, reach: float) -> None:
        """What a lane that comes into a node's row does there: enter from below, join from the side, or pass."""
        assert row.node is not None
        link = next((link for link in row.links if link.source == lane.column), None)
        if lane.column == row.column:
            self.straights.append(Straight(lane.column, start, middle - reach - ARROW + 1, lane.thick))
            self.over.append(head(self.x[lane.column], self.y(middle - reach), 0, -1, lane.thick))
        elif link is None or row.goes_on(lane.column):
            self.straights.append(Straight(lane.column, start, end, lane.thick))
        if link is None:
            return
        side = 1 if self.x[link.source] > self.x[link.target] else -1
        edge = self.x[row.column] + side * half_width(row.node)
        tip = edge + side * (ARROW - 1)
        source = self.x[link.source]
        if row.goes_on(lane.column):
            self.under.append(self.path(f"M{source:.1f} {self.y(middle):.1f}H{tip:.1f}", link.thick))
            self.over.append(self.dot(link, middle))
        else:
            bend = f"V{self.y(middle - ELBOW):.1f}Q{source:.1f} {self.y(middle):.1f} "
            bend += f"{source - side * ELBOW:.1f} {self.y(middle):.1f}H{tip:.1f}"
            self.under.append(self.path(f"M{source:.1f} {self.y(start):.1f}{bend}", link.thick))
        self.over.append(head(edge, self.y(middle), -side, 0, link.thick))

    def leaving(self, link: Link, middle: float, end: float) -> str:
        source, target = self.x[link.source], self.x[link.target]
        side = 1 if target > source else -1
        way = f"M{source:.1f} {self.y(middle):.1f}H{target - side * ELBOW:.1f}"
        way += f"Q{target:.1f} {self.y(middle):.1f} {target:.1f} {self.y(middle + ELBOW):.1f}V{self.y(end):.1f}"
        return self.path(way, link.thick)

    # -- shapes --

    def path(self, way: str, thick: bool, more: str = "") -> str:
        if thick:
            return f'<path class="thick{more}" d="{way}"/><path class="core" d="{way}"/>'
        return f'<path class="line{more}" d="{way}"/>'

    def dot(self, link: Link, along: float) -> str:
        radius = 4.5 if link.thick else 3
        return f'<circle class="dot" cx="{self.x[link.source]:.1f}" cy="{self.y(along):.1f}" r="{radius}"/>'

    def bridges(self, row: Row, along: float) -> list[str]:
        """A break in a line where it passes behind a lane that it has nothing to do with."""
        touched = {column for link in row.links for column in (link.source, link.target)}
        crossed = [
            lane.column
            for lane in row.above
            if lane.column not in touched and any(link.covers(lane.column) for link in row.links)
        ]
        return [f'<path class="halo" d="M{self.x[column]:.1f} {self.y(along) - 6:.1f}v12"/>' for column in crossed]

    def written(self, name: str, x: float, y: float, text: str, anchor: str = "start") -> str:
        return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

    def node(self, row: Row, middle: float) -> str:
        node = row.node
        assert node is not None
        x, y, half = self.x[row.column], self.y(middle), half_width(node)
        where = f"blocks.{node.layer}.{node.path}" if node.layer is not None else node.path
        hover = f"<title>{escape(where)}</title>" if where else ""
        if node.kind == "add":
            sign = f"M{x - 5:.1f} {y:.1f}h10" + (f"M{x:.1f} {y - 5:.1f}v10" if node.label == "+" else "")
            circle = f'<circle class="box" cx="{x:.1f}" cy="{y:.1f}" r="{CIRCLE}"/>'
            return f'<g class="add">{hover}{circle}<path class="sign" d="{sign}"/></g>'
        word = self.written("label", x, y + 4.5, node.label, "middle")
        if node.kind in ("input", "output"):
            return f'<g class="{node.kind}">{word}</g>'
        # Norms and sub-layers are boxes; smaller things are pills.
        corner = 6 if node.kind in ("norm", "sublayer") else BOX / 2
        size = f'x="{x - half:.1f}" y="{y - BOX / 2:.1f}" width="{2 * half:.1f}" height="{BOX}" rx="{corner}"'
        kinds = node.kind if node.kind != "sublayer" else f"sublayer {colour(node)}".rstrip()
        return f'<g class="{kinds}">{hover}<rect class="box" {size}/>{word}</g>'

    def lanes(self) -> list[str]:
        """Straight stretches, joined where they touch."""
        merged: list[Straight] = []
        for straight in sorted(self.straights, key=lambda each: (each.column, each.start)):
            before = merged[-1] if merged else None
            if before is not None and (before.column, before.end, before.thick, before.gap) == (
                straight.column, straight.start, straight.thick, straight.gap
            ):  # fmt: skip
                merged[-1] = Straight(straight.column, before.start, straight.end, straight.thick, straight.gap)
            else:
                merged.append(straight)
        shapes = []
        for each in merged:
            way = f"M{self.x[each.column]:.1f} {self.y(each.start):.1f}V{self.y(each.end):.1f}"
            shapes.append(self.path(way, each.thick, " gap" if each.gap else ""))
        return shapes

    def frames(self) -> list[str]:
        shapes = []
        for span in self.wiring.spans:
            rows = [number for number, row in enumerate(self.layout.rows) if row.layer == span.first]
            low, high = self.starts[rows[0]] - 2, self.starts[rows[-1] + 1] + 2
            shapes.append(
                f'<rect class="frame" x="{self.left:.1f}" y="{self.y(high):.1f}" width="{self.right - self.left:.1f}" '
                f'height="{high - low:.1f}" rx="10"/>'
            )
            text = counted(span, self.wiring)
            shapes.append(self.written("count", self.left - 8, self.y((low + high) / 2) + 4, text, "end"))
        return shapes

    def text(self, title: str) -> str:
        head = [self.written("title", MARGIN, MARGIN + 12 + 22 * row, line) for row, line in enumerate(self.title)]
        below = MARGIN + 12 + 22 * len(self.title)
        head += [self.written("formula", MARGIN, below + 17 * row, line) for row, line in enumerate(self.formula)]
        shapes = [*head, *self.frames(), *self.under, *self.lanes(), *self.over]
        width, height = round(self.width), round(self.height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" class="wiring" role="img" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}">',
                f"<title>{escape(title)}</title>",
                f"<desc>{escape(described(self.wiring))}</desc>",
                f"<style>{STYLE}</style>",
                f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
                *shapes,
                "</svg>\n",
            ]
        )


def height(row: Row) -> float:
    if row.node is None:
        return 36.0 if row.gap else 18.0 if row.note else 24.0
    return {"add": 42.0, "input": 30.0, "output": 34.0}.get(row.node.kind, 50.0)


def half_height(node: Node) -> float:
    return {"add": CIRCLE, "input": 9.0, "output": 9.0}.get(node.kind, BOX / 2)


def half_width(node: Node) -> float:
    if node.kind == "add":
        return CIRCLE
    return max(24.0, len(node.label) * LETTER / 2 + (12 if node.kind not in ("input", "output") else 0))


def colour(node: Node) -> str:
    """The class of a sub-layer's colour; a kind without one has the colour of sub-layers at large."""
    known = ("self_attention", "cross_attention", "feed_forward")
    return next((name for name in known if node.slot.startswith(name)), "")


def counted(span: Span, wiring: Wiring) -> str:
    whole = span == Span(0, wiring.depth - 1)
    return f"× {wiring.depth}" if whole else span.words()


def head(x: float, y: float, right: int, down: int, thick: bool) -> str:
    """An arrow's head with its tip at (x, y)."""
    length, half = (ARROW + 1, 5.5) if thick else (ARROW, 3.6)
    back_x, back_y = x - right * length, y - down * length
    across_x, across_y = down * half, right * half
    corners = ((x, y), (back_x + across_x, back_y + across_y), (back_x - across_x, back_y - across_y))
    return f'<path class="head" d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in corners)}Z"/>'


def described(wiring: Wiring) -> str:
    """For those who cannot see it: what happens, in order."""
    steps = [node.label + (f" ({node.place})" if node.place else "") for node in wiring.nodes]
    return f"The {wiring.side} from input to output: {', '.join(steps)}."
