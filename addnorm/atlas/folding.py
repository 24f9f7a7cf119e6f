"""Folding: recorded steps become few, readable nodes.

What makes steps readable holds for any design, a third party's too:

- a norm or a sub-layer is one node; every other module is looked into
- what changes nothing is left out: reshapes, casts, times 1, plus 0
- sums, scalings and activation functions stay as they are
- anything richer becomes one node for each stretch of arithmetic between two module calls, named by what it does to the
  stream's lanes, else by its formula where that is short, else by its class
"""

from __future__ import annotations

import re
from collections import defaultdict

from torch import nn

from addnorm.atlas.graph import Node, NodeKind
from addnorm.atlas.recording import (
    ADD,
    DIVIDE,
    MULTIPLY,
    NORMS,
    PRODUCT,
    RESHAPE,
    SUBTRACT,
    SUBTRACT_FROM,
    Argument,
    Step,
    Value,
    Weight,
)
from addnorm.atlas.sketch import End

LONGEST_FORMULA = 32

PLAIN = {"add", "scale", "shift", "function", "norm", "sublayer", "input"}


class Fold:
    """Steps to nodes."""

    def __init__(self, steps: list[Step], outputs: list[Value], inputs: int) -> None:
        self.steps, self.inputs = steps, inputs
        self.sorts = [self.sort(number) for number in range(len(steps))]
        self.users: dict[int, list[int]] = defaultdict(list)
        for number, step in enumerate(steps):
            for value in step.values:
                self.users[value].append(number)
        self.outside = {output.step for output in outputs}
        self.nodes: list[Node] = []
        self.node_of: dict[int, Node] = {}
        self.said: dict[int, tuple[int | None, str]] = {}  # node -> the sub-layer whose word it passes on
        for group in self.groups():
            self.emit(group)
        if len(outputs) == 1:
            self.nodes.append(Node(len(self.nodes), "output", "y", (self.node_of[outputs[0].step].key,)))

    def sort(self, number: int) -> str:
        """What a step is by itself; an "element" or a "rich" one is drawn with its neighbours."""
        step = self.steps[number]
        if number < self.inputs:
            return "input"
        if step.name in ("norm", "sublayer") or step.name in NORMS:
            return "sublayer" if step.name == "sublayer" else "norm"
        values = step.values
        others = [argument for argument in step.arguments if not isinstance(argument, Value)]
        if step.lanes == 0 or {self.steps[value].lanes for value in values} != {step.lanes}:
            return "rich"
        if step.name in ADD | SUBTRACT and len(values) == 2 and not others:
            return "add"
        if len(values) > 1 or step.name in PRODUCT | SUBTRACT_FROM | RESHAPE:
            return "rich"
        if step.name in ADD | SUBTRACT:
            return "shift" if others else "scale"
        if step.name in MULTIPLY | DIVIDE:
            if not others:
                return "rich"
            return "element" if isinstance(others[0], Weight) and others[0].element else "scale"
        return "function"

    def groups(self) -> list[list[int]]:
        """Steps that touch, in one stretch of one module's arithmetic. Each group in order, groups by their last step.

        No cycle can come of it: whatever stands between two steps of a stretch is itself a step of that stretch.
        """
        parent = list(range(len(self.steps)))

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        for number, step in enumerate(self.steps):
            for value in step.values:
                if self.joinable(number) and self.joinable(value) and self.steps[value].stretch == step.stretch:
                    parent[root(number)] = root(value)
        weights: dict[tuple[int, int], int] = {}  # several sets of weights, computed side by side, are one thing
        for number, step in enumerate(self.steps):
            if step.lanes == 0 and any(self.steps[user].stretch != step.stretch for user in self.users[number]):
                parent[root(number)] = root(weights.setdefault(step.stretch, number))
        together: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self.steps)):
            together[root(number)].append(number)
        groups: list[list[int]] = []
        for group in together.values():
            alone = all(self.sorts[number] in PLAIN for number in group)
            groups += [[number] for number in group] if alone else [group]
        absorbed = {number for number in range(len(self.steps)) if self.absorbed(number)}
        return sorted((group for group in groups if not absorbed.issuperset(group)), key=lambda group: group[-1])

    def joinable(self, number: int) -> bool:
        return self.sorts[number] not in ("input", "norm", "sublayer")

    def absorbed(self, number: int) -> bool:
        """x + bottom, where all that follows is + y: one sum of three."""
        if not self.is_sum(number) or number in self.outside or len(self.users[number]) != 1:
            return False
        (user,) = self.users[number]
        return self.is_sum(user) and self.steps[user].stretch == self.steps[number].stretch

    def is_sum(self, number: int) -> bool:
        return self.sorts[number] == "add" and self.steps[number].name in ADD

    def terms(self, number: int) -> list[int]:
        step = self.steps[number]
        found = []
        for value in step.values:
            found += self.terms(value) if self.is_sum(number) and self.absorbed(value) else [value]
        return list(dict.fromkeys(found))

    def emit(self, group: list[int]) -> None:
        last = self.steps[group[-1]]
        layer, slot, path = whereabouts(last.path)
        if len(group) == 1 and self.sorts[group[0]] in PLAIN:
            inputs = self.terms(group[0])
            kind, label = self.plain(group[0])
        else:
            within = set(group)
            inputs = [value for number in group for value in self.steps[number].values if value not in within]
            inputs = list(dict.fromkeys(inputs))
            kind, label = self.weighted_sum(group) or self.rich(group, inputs)
        if kind == "sublayer":
            label = slot.replace("_", "-")
        keys = tuple(dict.fromkeys(self.node_of[value].key for value in inputs))
        node = Node(len(self.nodes), kind, label, keys, path, layer, slot, last.lanes)
        self.nodes.append(node)
        self.node_of |= dict.fromkeys(group, node)
        if kind == "sublayer" or any(self.said.get(key) == (layer, slot) for key in keys):
            self.said[node.key] = (layer, slot)

    # -- labels --

    def plain(self, number: int) -> tuple[NodeKind, str]:
        step, sort = self.steps[number], self.sorts[number]
        others = [argument for argument in step.arguments if not isinstance(argument, Value)]
        if sort == "input":
            return "input", step.name if step.lanes < 2 else f"{step.name} ({step.lanes} lanes)"
        if sort == "sublayer":
            return "sublayer", ""
        if sort == "norm":
            return "norm", "norm"
        if sort == "add":
            return "add", "+" if step.name in ADD else "−"
        if sort == "shift":
            return "function", f"{'+' if step.name in ADD else '−'} {amount(others[0])}"
        if sort == "scale":
            if not others:  # x + x
                return "scale", "× 2" if step.name in ADD else "× 0"
            return "scale", f"{'×' if step.name in MULTIPLY else '÷'} {amount(others[0])}"
        return "function", step.name.strip("_")

    def weighted_sum(self, group: list[int]) -> tuple[NodeKind, str] | None:
        """Scalings by elements of one learned vector, added up."""
        sorts = [self.sorts[number] for number in group]
        if "element" not in sorts or not {"element", "add"}.issuperset(sorts):
            return None
        return ("mix", "Σ W_k y_k") if "add" in sorts else ("scale", "× W_0")

    def rich(self, group: list[int], inputs: list[int]) -> tuple[NodeKind, str]:
        last, owner = self.steps[group[-1]], words(self.steps[group[-1]].owner)
        ends = [number for number in group if number in self.outside or not set(group).issuperset(self.users[number])]
        taken = [self.steps[value].lanes for value in inputs if self.steps[value].lanes > 0]
        if last.lanes == 0:
            return "mix", owner if owner.endswith("weights") else f"{owner} weights"
        if max([*taken, last.lanes]) > 1:
            return "mix", about_lanes(taken, last, alone=len(group) == 1)
        if last.name == "sigmoid":
            return "gate", "gate"
        formula = Formula(self, group, inputs).text(group[-1]) if len(ends) == 1 else ""
        return "mix", formula or owner


def whereabouts(path: str) -> tuple[int | None, str, str]:
    """Layer, slot, and the path inside the block."""
    inside = re.fullmatch(r"blocks\.(\d+)\.((?:connections|sublayers)\.([^.]+).*)", path)
    return (int(inside[1]), inside[3], inside[2]) if inside else (None, "", path)


def about_lanes(taken: list[int], last: Step, alone: bool) -> str:
    """A stream of several lanes: what is done to them, told by what goes in and what comes out."""
    if max(taken) == 1:
        return f"copy to {last.lanes} lanes" if len(taken) == 1 else f"join to {last.lanes} lanes"
    if last.lanes == 1:
        return f"{last.name} of lanes" if alone and last.name in ("sum", "mean") else "read from lanes"
    return "mix lanes" if min(taken) > 1 else "write to lanes"


def amount(argument: Argument) -> str:
    """The number, or the letter of a learned one with how it is born."""
    if isinstance(argument, float):
        return f"{argument:.3g}"
    assert isinstance(argument, Weight)
    letters = {"weight": "ω" if argument.per_feature else "α", "bias": "b"}
    about = ["per feature"] if argument.per_feature else []
    # A vector born 1 goes without saying: so do norms start, and Admin's until it is calibrated.
    if argument.born is not None and not (argument.per_feature and argument.born == 1.0):
        about.append(f"born {argument.born:.3g}")
    name = letters.get(argument.name, argument.name)
    return f"{name} ({', '.join(about)})" if about else name


def words(owner: nn.Module) -> str:
    """HighwayGate -> highway gate"""
    name = getattr(owner.function, "__name__", "") if isinstance(owner, End) else type(owner).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).strip().lower()


class Formula:
    """A group's arithmetic in letters: x from the stream, y from the sub-layer, g from a gate."""

    def __init__(self, fold: Fold, group: list[int], inputs: list[int]) -> None:
        self.steps, here = fold.steps, whereabouts(fold.steps[group[-1]].path)[:2]
        self.terms: dict[int, tuple[str, int]] = {}
        for value in sorted(inputs):  # the oldest is x, a later one x′
            node = fold.node_of[value]
            said = fold.said.get(node.key) == here
            letter = "g" if node.kind == "gate" else "w" if node.lanes == 0 else "y" if said else "x"
            while (letter, 2) in self.terms.values():
                letter += "′"
            self.terms[value] = letter, 2
        for number in group:
            self.terms[number] = self.operation(self.steps[number])
            if len(self.terms[number][0]) > LONGEST_FORMULA:  # also: a step used twice in each next one doubles it
                self.terms[number] = "", 0

    def text(self, number: int) -> str:
        """Empty where it would be too long to read."""
        return self.terms[number][0]

    def term(self, argument: Argument) -> tuple[str, int]:
        """Text, and how tightly it binds: 0 a sum, 1 a product, 2 a letter or a call."""
        if isinstance(argument, float):
            return f"{argument:.3g}", 2
        if isinstance(argument, Weight):
            return "W" if argument.matrix else {"weight": "w", "bias": "b"}.get(argument.name, argument.name), 2
        return self.terms[argument.step]

    def operation(self, step: Step) -> tuple[str, int]:
        terms = [self.term(argument) for argument in step.arguments]
        if any(not text for text, _ in terms):
            return "", 0
        if step.name in ADD | SUBTRACT | SUBTRACT_FROM and len(terms) > 1:
            left, right, *alpha = terms
            if alpha:  # torch.add(x, y, alpha=2)
                right = f"{alpha[0][0]} {bound(right, 1)}", 1
            if step.name in SUBTRACT_FROM:
                left, right = right, left
            return (f"{left[0]} + {right[0]}" if step.name in ADD else f"{left[0]} − {bound(right, 1)}"), 0
        if step.name in DIVIDE and len(terms) == 2:
            return f"{bound(terms[0], 1)} / {bound(terms[1], 2)}", 1
        if step.name == "linear":
            product = f"{bound(terms[1], 1)} {bound(terms[0], 1)}"
            return (f"{product} + {terms[2][0]}", 0) if len(terms) > 2 else (product, 1)
        if step.name in MULTIPLY | PRODUCT:
            return " ".join(bound(term, 1) for term in terms), 1
        # Numbers among other functions' arguments are mostly dimensions.
        texts = [text for (text, _), each in zip(terms, step.arguments, strict=True) if not isinstance(each, float)]
        if step.name in ("cat", "concat", "concatenate"):
            return f"[{' ; '.join(texts)}]", 2
        return f"{step.name.strip('_')}({', '.join(texts)})", 2


def bound(term: tuple[str, int], tightness: int) -> str:
    return term[0] if term[1] >= tightness else f"({term[0]})"
