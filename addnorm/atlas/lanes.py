"""Lanes: where everything of a wiring stands, for every kind of picture.

Each live value is a lane, a column; each node is a row; as in `git log --graph`. Column 0 is the trunk, column 1 the
branch through the sub-layer, further right what is remembered for later. Four kinds of row:

    node     the node in its column, links from the lanes it takes its values from
    branch   new lanes for a value that is needed in more than one place
    note     words between two blocks
    gap      the same, where blocks are left out
"""

from __future__ import annotations

from dataclasses import dataclass, field

from addnorm.atlas.graph import Node, Span, Wiring


@dataclass(frozen=True)
class Lane:
    column: int
    value: int  # the key of the node that made it
    thick: bool  # holds several (B, T, D)


@dataclass(frozen=True)
class Link:
    """A horizontal line."""

    source: int
    target: int
    thick: bool

    def covers(self, column: int) -> bool:
        return min(self.source, self.target) < column < max(self.source, self.target)


@dataclass(frozen=True)
class Row:
    above: tuple[Lane, ...]  # what comes in from the row before
    below: tuple[Lane, ...]  # what goes on to the next
    links: tuple[Link, ...] = ()
    node: Node | None = None
    column: int = 0  # the node's
    note: str = ""
    gap: bool = False
    layer: int | None = None  # whose block this row is part of

    def goes_on(self, column: int) -> bool:
        """The lane in that column is not at its end here."""
        return any(lane in self.above for lane in self.below if lane.column == column)


@dataclass(frozen=True)
class Layout:
    rows: tuple[Row, ...]
    columns: int


def arrange(wiring: Wiring) -> Layout:
    layout = Arranging(wiring)
    columns = 1 + max(lane.column for row in layout.rows for lane in (*row.above, *row.below))
    return Layout(tuple(layout.rows), columns)


@dataclass
class Course:
    """The lines of thought of a wiring: each node's main input, the trunk, and the ways to the sub-layers."""

    main: dict[int, int] = field(default_factory=dict)
    trunk: list[int] = field(default_factory=list)
    branches: set[int] = field(default_factory=set)


def course_of(nodes: tuple[Node, ...]) -> Course:
    """The trunk is the way to the output past the fewest sub-layers; among equals the one from the stream's first
    tensor, then the one past the fewest transformations of a single value, then the one where most happens.

    The first makes the skip the trunk, the last a block's own stream rather than what it remembers.
    """
    course, by_key = Course(), {node.key: node for node in nodes}
    costs: dict[int, tuple[int, int, int, int]] = {}
    for node in nodes:
        steering = [key for key in node.inputs if by_key[key].kind == "gate" or by_key[key].lanes == 0]
        streams = [key for key in node.inputs if key not in steering] or steering
        if node.label == "−":  # what is taken off is not what goes on
            streams = streams[:1]
        sublayers, beside, transformed, length = 0, int(node is not nodes[0]), 0, 0
        if streams:
            main = course.main[node.key] = min(streams, key=costs.__getitem__)
            sublayers, beside, transformed, length = costs[main]
            alone = len(node.inputs) == 1 and by_key[main].lanes == node.lanes
            transformed += alone and node.kind in ("mix", "gate", "function")
        costs[node.key] = (sublayers + (node.kind == "sublayer"), beside, transformed, length - 1)
    course.trunk = [nodes[-1].key]
    while course.trunk[-1] in course.main:
        course.trunk.append(course.main[course.trunk[-1]])
    course.trunk.reverse()
    for node in nodes:
        if node.kind == "sublayer":
            key = node.key
            while key not in course.trunk and key in course.main:
                course.branches.add(key)
                key = course.main[key]
    return course


class Arranging:
    """Goes through the nodes in order and keeps the lanes that are alive."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring, self.course = wiring, course_of(wiring.nodes)
        self.successor = dict(zip(self.course.trunk, self.course.trunk[1:], strict=False))
        inputs = [node for node in wiring.nodes if node.kind == "input"]
        inputs.sort(key=lambda node: node.key not in self.course.trunk)
        self.order = [*inputs, *(node for node in wiring.nodes if node.kind != "input")]
        self.place = {node.key: number for number, node in enumerate(self.order)}
        self.users = {node.key: [user.key for user in self.order if node.key in user.inputs] for node in self.order}
        self.live: dict[int, Lane] = {}
        self.ends: dict[int, int] = {}  # column -> the node with which that lane ends
        self.rows: list[Row] = []
        layer: int | None = None
        for node in self.order:
            if node.layer != layer:
                self.announce(layer, node)
                layer = node.layer
            self.put(node)

    def announce(self, before: int | None, node: Node) -> None:
        """Only where several blocks are drawn: else there is nothing to tell apart."""
        spans, depth = self.wiring.spans, self.wiring.depth
        if len(spans) == 1:
            return
        for span in spans:
            if node.layer == span.first:
                self.note(span.words())
        if node.layer is None and before is not None and spans[-1].last < depth - 1:
            self.note(f"{Span(spans[-1].last + 1, depth - 1).words()} likewise", gap=True)

    def note(self, text: str, gap: bool = False) -> None:
        lanes = self.lanes()
        self.rows.append(Row(lanes, lanes, note=text, gap=gap))

    def lanes(self) -> tuple[Lane, ...]:
        return tuple(self.live[column] for column in sorted(self.live))

    # -- one node --

    def put(self, node: Node) -> None:
        self.branch(node)
        above = self.lanes()
        sources = [self.lane_of(key, node.key) for key in node.inputs]
        ending = [lane.column for lane in sources if self.ends[lane.column] == node.key]
        column = self.column_for(node, ending)
        for ended in ending:
            del self.live[ended], self.ends[ended]
        links = tuple(Link(lane.column, column, lane.thick) for lane in sources if lane.column != column)
        if self.users[node.key]:
            self.start(column, node, self.successor.get(node.key, self.users[node.key][-1]))
        self.rows.append(Row(above, self.lanes(), links, node, column, layer=node.layer))

    def column_for(self, node: Node, ending: list[int]) -> int:
        if node.key in self.course.trunk:
            return 0
        if ending:
            main = self.lane_of(self.course.main[node.key], node.key).column
            return main if main in ending else min(ending)
        return self.free(node)

    def free(self, node: Node | None) -> int:
        """Column 1 is kept for the way to the sub-layer."""
        column = 1 if node is not None and node.key in self.course.branches else 2
        while column in self.live:
            column += 1
        return column

    def lane_of(self, value: int, user: int) -> Lane:
        """The lane that ends with this user, if there is one; else the value's leftmost."""
        lanes = [lane for lane in self.lanes() if lane.value == value]
        return next((lane for lane in lanes if self.ends[lane.column] == user), lanes[0])

    def start(self, column: int, value: Node, end: int) -> None:
        self.live[column] = Lane(column, value.key, value.lanes > 1)
        self.ends[column] = end

    # -- fan-out --

    def branch(self, node: Node) -> None:
        """Before a node: a lane of its own if it begins a new one, and a lane for what must outlive the trunk."""
        for key in node.inputs:
            value = self.order[self.place[key]]
            source = self.lane_of(key, node.key)
            begins = len(node.inputs) == 1 and self.ends[source.column] != node.key
            outlives = self.to_remember(value)
            if not begins and not (outlives and self.successor[key] == node.key):
                continue
            above, targets = self.lanes(), []
            if begins:
                targets.append(self.free(node))
                self.start(targets[-1], value, node.key)
            if outlives:
                targets.append(self.free(None))
                self.start(targets[-1], value, self.users[key][-1])
            links = tuple(Link(source.column, target, source.thick) for target in targets)
            self.rows.append(Row(above, self.lanes(), links, layer=node.layer))

    def to_remember(self, value: Node) -> bool:
        """A trunk value that is needed again after the trunk has moved on, and has no second lane yet."""
        heir = self.successor.get(value.key)
        if heir is None or self.place[self.users[value.key][-1]] <= self.place[heir]:
            return False
        last = self.users[value.key][-1]
        return not any(lane.value == value.key and self.ends[lane.column] == last for lane in self.live.values())
