"""A wiring as a graph: what happens to the stream, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from addnorm.arrangements.base import Side

NodeKind = Literal["input", "norm", "sublayer", "add", "scale", "gate", "mix", "function", "output"]


@dataclass(frozen=True)
class Node:
    """One thing that happens to the stream."""

    key: int
    kind: NodeKind
    label: str
    inputs: tuple[int, ...] = ()  # keys of the nodes whose values it takes
    path: str = ""  # of the module, inside its block: connections.feed_forward.before; or open, close
    layer: int | None = None  # None: at one of the stack's ends
    slot: str = ""  # the sub-layer whose connection it is part of
    lanes: int = 1  # how many (B, T, D) its value holds; 0: no such value, but weights computed from one

    @property
    def place(self) -> str:
        """The name that a reader of the design's formula knows: before, skip, branch, after, close."""
        if self.kind in ("input", "output", "sublayer"):
            return ""
        names = [name for name in self.path.split(".") if not name.isdigit()]
        if names[0] == "connections":
            names = names[2:]
        if len(names) > 1 and names[-1] == "norm":  # the norm of a `close` or a `remember`: the node says norm already
            names.pop()
        return names[-1] if names else ""


@dataclass(frozen=True)
class Span:
    """Consecutive blocks wired alike, of which the first is drawn."""

    first: int
    last: int

    def words(self) -> str:
        """For people, who count from one."""
        return f"block {self.first + 1}" if self.first == self.last else f"blocks {self.first + 1} to {self.last + 1}"


@dataclass(frozen=True)
class Wiring:
    """A small stack as a graph: nodes in the order they happen, the input first, the output last."""

    nodes: tuple[Node, ...]
    spans: tuple[Span, ...]
    depth: int
    side: Side
