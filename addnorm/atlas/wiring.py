"""Wiring: what a design's block does to its values, found by running it and never drawn by hand.

    design -> the real open, connections and close, on the meta device, with stand-ins for the sub-layers
           -> every operation on a value that came from the input, in order, with the module that asked for it  (Step)
           -> few, readable nodes                                                                               (Node)

What makes steps readable holds for any design, a third party's too:

- a norm or a sub-layer is one node; every other module is looked into
- what changes nothing is left out: reshapes, casts, times 1, plus 0
- sums, scalings and activation functions stay as they are
- anything richer becomes one node for each stretch of arithmetic between two module calls. It is named by what it does to
  the stream's lanes, else by its formula where that is short, else by its class
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from addnorm.arrangements.base import Arrangement, Connection, Side
from addnorm.layers.part import Part
from addnorm.models.block import Block
from addnorm.models.build import Mode, make_spec
from addnorm.models.stack import Plan, kind_of
from addnorm.spec import SpecError

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


@dataclass(frozen=True)
class Wiring:
    """A small stack as a graph: nodes in the order they happen, the input first, the output last."""

    nodes: tuple[Node, ...]
    spans: tuple[Span, ...]
    depth: int
    side: Side


def trace(
    design: Arrangement,
    mode: Mode = "encoder",
    depth: int = 6,
    width: int = 512,
    heads: int = 8,
    layer: int = 0,
    side: Side | None = None,
) -> Wiring:
    """The wiring of a design in a model of that mode and size; constants are those of that depth.

    layer   the block to draw. Where a later block is wired differently (Mix-LN, DLCL), the first such one is drawn too.
    side    of an encoder-decoder; the decoder, with its three sub-layers, unless asked otherwise
    """
    plans = make_spec(design, mode=mode, depth=depth, width=width, heads=heads).plans()
    chosen = side or ("decoder" if "decoder" in plans else "encoder")
    if chosen not in plans:
        raise SpecError(f"wanted the {chosen} of a model of mode {mode}, which has {', '.join(plans)} alone")
    return trace_plan(plans[chosen], layer)


def trace_plan(plan: Plan, layer: int = 0) -> Wiring:
    """The wiring of one stack of a model: `trace_plan(spec.plans()["encoder"])`."""
    if not 0 <= layer < plan.depth:
        raise SpecError(f"wanted a layer from 0 to {plan.depth - 1}, came {layer}; blocks are counted from 0")
    with torch.no_grad(), torch.device("meta"):
        stream, spans = survey(plan, layer)
        inputs = named(stream, plan.design.form())
        ends = {"close": plan.design.close(plan.site("close", plan.depth))}
        if layer == 0:
            stream = torch.empty(BATCH, LENGTH, plan.width)
            inputs = {"x": stream}
            ends["open"] = plan.design.open(plan.site("open", 0))
        blocks = {span.first: block_of(plan, span.first) for span in spans}
        nodes, _ = record(Sketch(blocks, ends), inputs, stream)
    return Wiring(bundled(needed(nodes)), spans, plan.depth, plan.side)


# -- the small stack -------------------------------------------------------------------------------------------

DRAWN_KINDS = 2  # a picture of more blocks than this is no longer small

# Odd sizes, which no width and no number of lanes is likely to have: dimensions are recognised by them.
BATCH, LENGTH = 11, 13


class StandIn(Part):
    """A sub-layer's place in a picture: what it computes is not the picture's subject."""

    def forward(self, h: Tensor, *others: Any, **options: Any) -> Tensor:
        return torch.empty_like(h)


class End(nn.Module):
    """An `open` or `close` that is a plain function, made a module so that what it does has an owner."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, stream: Any) -> Any:
        return self.function(stream)


class Sketch(nn.Module):
    """A stack with some of its blocks. Its modules have the paths that they have in the real one."""

    def __init__(self, blocks: dict[int, Block], ends: dict[str, Callable[[Any], Any]]) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({str(layer): block for layer, block in blocks.items()})
        self.ends = {name: end if isinstance(end, nn.Module) else End(end) for name, end in ends.items()}
        for name, end in self.ends.items():
            self.add_module(name, end)

    def forward(self, stream: Any) -> Any:
        if "open" in self.ends:
            stream = self.ends["open"](stream)
        for block in self.blocks.values():
            stream = block(stream, None)
        return self.ends["close"](stream) if "close" in self.ends else stream


def block_of(plan: Plan, layer: int) -> Block:
    sites = {name: plan.site(kind_of(name), layer, slot) for slot, name in enumerate(plan.contents)}
    connections = {name: plan.design.connect(site) for name, site in sites.items()}
    return Block(sites, {name: StandIn() for name in sites}, connections)


def survey(plan: Plan, layer: int) -> tuple[Any, tuple[Span, ...]]:
    """The stream that enters that layer, and the kinds of block from there on."""
    stream: Any = plan.design.open(plan.site("open", 0))(torch.empty(BATCH, LENGTH, plan.width))
    for number in range(layer):
        stream = block_of(plan, number)(stream, None)
    incoming, spans, looks = stream, [], None
    for number in range(layer, plan.depth):
        nodes, stream = record(Sketch({number: block_of(plan, number)}, {}), named(stream, plan.design.form()), stream)
        look = signature(nodes)
        if look == looks:
            spans[-1] = Span(spans[-1].first, number)
        elif len(spans) == DRAWN_KINDS:
            break
        else:
            spans.append(Span(number, number))
            looks = look
    return incoming, tuple(spans)


def signature(nodes: list[Node]) -> tuple[Any, ...]:
    """Equal for blocks wired alike. Constants may differ: a scale that grows with depth is still the same wiring."""
    return tuple((node.kind, re.sub(r"\d[\d.e+-]*", "#", node.label), node.inputs, node.path) for node in nodes)


# -- recording -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """What a step made."""

    step: int


@dataclass(frozen=True)
class Weight:
    """A learned tensor, or something computed from learned tensors alone."""

    name: str
    size: int
    matrix: bool
    born: float | None = None
    element: bool = False  # one number out of a vector: W[k]


Argument = Value | Weight | float


@dataclass(frozen=True)
class Step:
    """One operation, or one call of a norm or sub-layer."""

    name: str
    arguments: tuple[Argument, ...]
    owner: nn.Module
    path: str
    stretch: tuple[int, int]  # which call of the owner, and between which two calls the owner made
    lanes: int

    @property
    def values(self) -> list[int]:
        return list(dict.fromkeys(argument.step for argument in self.arguments if isinstance(argument, Value)))


@dataclass
class Frame:
    """A module call in progress."""

    owner: nn.Module
    path: str
    serial: int
    calls: int = 0


ADD = {"add", "__add__", "__radd__", "__iadd__", "add_"}
SUBTRACT = {"sub", "__sub__", "sub_", "__isub__", "subtract"}
SUBTRACT_FROM = {"rsub", "__rsub__"}
MULTIPLY = {"mul", "__mul__", "__rmul__", "__imul__", "mul_", "multiply"}
DIVIDE = {"div", "__truediv__", "truediv", "__itruediv__", "div_", "divide", "true_divide", "__div__"}
PRODUCT = {"matmul", "__matmul__", "__rmatmul__", "bmm", "linear", "einsum"}
NORMS = {"layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "normalize"}
RESHAPE = {
    "__get__",  # properties that are tensors: x.T, x.data
    *("view", "view_as", "reshape", "unsqueeze", "squeeze", "expand", "expand_as", "broadcast_to", "flatten", "unflatten"),
    *("transpose", "permute", "movedim", "swapaxes", "contiguous", "clone", "detach", "dropout", "alpha_dropout"),
    *("to", "type", "type_as", "float", "half", "bfloat16", "double", "repeat", "stack", "__getitem__", "select", "requires_grad_"),
}  # fmt: skip
BLANK = {"zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0}


class Recorder(TorchFunctionMode):
    """Notes the steps of a module's forward. Values are real (meta) tensors, so that any Python may stand around them."""

    def __init__(self, root: nn.Module, width: int) -> None:
        super().__init__()
        self.width = width
        self.steps: list[Step] = []
        self.frames = [Frame(root, "", 0)]
        self.serial, self.muted = 0, 0
        self.values: dict[int, Value] = {}
        self.constants: dict[int, float] = {}
        self.weights = dict(named_weights(root))
        self.alive: list[Tensor] = []  # tensors are known by their id, which must not be given to another
        self.hooks = [hook for path, module in root.named_modules() for hook in self.watch(module, path)]

    def __exit__(self, *error: Any) -> None:
        for hook in self.hooks:
            hook.remove()
        super().__exit__(*error)

    def watch(self, module: nn.Module, path: str) -> Iterator[Any]:
        one_node = isinstance(module, StandIn) or is_norm(module)
        if is_norm(module):
            module.forward = StandIn().forward  # type: ignore[method-assign]  # as with sub-layers; and a norm takes time

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.frames[-1].calls += 1
            self.serial += 1
            self.muted += one_node
            self.frames.append(Frame(module, path, self.serial))

        def leave(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            self.muted -= one_node
            if one_node:
                self.note("sublayer" if isinstance(module, StandIn) else "norm", (args, kwargs), result)
            self.frames.pop()

        yield module.register_forward_pre_hook(enter, with_kwargs=True)
        yield module.register_forward_hook(leave, with_kwargs=True)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.muted:
            self.note(getattr(func, "__name__", "function"), (args, kwargs or {}), result)
        return result

    def note(self, name: str, inputs: Any, result: Any) -> None:
        before = list(leaves(inputs))
        in_place = name.endswith("_") and not name.endswith("__")
        made = [
            t for t in leaves(result) if isinstance(t, Tensor) and (in_place or not any(t is old for old in before))
        ]
        if not made:
            return
        self.alive += made
        arguments = tuple(known for item in before if (known := self.argument(item)) is not None)
        values = [argument for argument in arguments if isinstance(argument, Value)]
        if name in BLANK:
            self.constants |= {id(tensor): BLANK[name] for tensor in made}
        elif not values:
            self.derive(name, arguments, made)
        else:
            lanes = [lanes_of(tensor, self.width) for tensor in made]
            if self.changes_nothing(name, arguments, lanes):
                value = values[0]
            else:
                value = self.add(name, arguments, max(lanes))
            self.values |= {id(tensor): value for tensor in made}

    def add(self, name: str, arguments: tuple[Argument, ...], lanes: int) -> Value:
        frame = self.frames[-1]
        self.steps.append(Step(name, arguments, frame.owner, frame.path, (frame.serial, frame.calls), lanes))
        return Value(len(self.steps) - 1)

    def argument(self, item: Any) -> Argument | None:
        if isinstance(item, Tensor):
            return self.values.get(id(item)) or self.constants.get(id(item), self.weights.get(id(item), unnamed(item)))
        return float(item) if isinstance(item, int | float) and not isinstance(item, bool) else None

    def derive(self, name: str, arguments: tuple[Argument, ...], made: list[Tensor]) -> None:
        """Something computed from weights alone goes by the name of the first of them; zeros stay zeros."""
        if 0.0 in arguments[:1] and name in MULTIPLY | DIVIDE | RESHAPE:
            self.constants |= dict.fromkeys(map(id, made), 0.0)
        origin = next((argument for argument in arguments if isinstance(argument, Weight)), None)
        if origin is None:
            return
        element = name in ("__getitem__", "select", "unbind") and not origin.matrix
        for tensor in made:
            self.weights[id(tensor)] = Weight(origin.name, tensor.numel(), tensor.dim() > 1, None, element)

    def changes_nothing(self, name: str, arguments: tuple[Argument, ...], lanes: list[int]) -> bool:
        values = [argument for argument in arguments if isinstance(argument, Value)]
        if name in RESHAPE:
            return len(set(values)) == 1 and {self.steps[values[0].step].lanes} == set(lanes)
        neutral = 0.0 if name in ADD | SUBTRACT else 1.0 if name in MULTIPLY | DIVIDE else None
        movable = name in ADD | MULTIPLY  # 0 + x is x, but 0 - x is not, and neither is 1 / x
        return neutral is not None and (
            neutral in arguments[1:2] or (movable and neutral in arguments[:1])
        )  # fmt: skip


def record(root: nn.Module, inputs: dict[str, Tensor], stream: Any) -> tuple[list[Node], Any]:
    """The nodes of root(stream), and what it gave; inputs are the stream's tensors by name."""
    recorder = Recorder(root, width=next(iter(inputs.values())).shape[-1])
    for name, tensor in inputs.items():
        recorder.alive.append(tensor)
        recorder.values[id(tensor)] = recorder.add(name, (), lanes_of(tensor, recorder.width))
    with recorder:
        result = root(stream)
    outputs = [recorder.values[id(tensor)] for tensor in leaves(result) if id(tensor) in recorder.values]
    return Fold(recorder.steps, outputs, len(inputs)).nodes, result


def named(stream: Any, form: str) -> dict[str, Tensor]:
    """The stream's tensors by the words of `Arrangement.form`, (x, bottom) or (x, past...); one found twice once."""
    words = [word.strip() for word in form.strip("()").split(",")] if form.startswith("(") else ["x"]
    many = words.pop().removesuffix("...") if words[-1].endswith("...") else "x"
    found: dict[int, tuple[str, Tensor]] = {}
    for number, tensor in enumerate(leaves(stream)):
        name = words[number] if number < len(words) else f"{many} {number - len(words)}"
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, tuple | list):
        for item in structure:
            yield from leaves(item)
    elif isinstance(structure, dict):
        yield from leaves(list(structure.values()))
    else:
        yield structure


def lanes_of(tensor: Tensor, width: int) -> int:
    """How many (B, T, D) fit in it; 0 where it is something else, such as a weight for each position."""
    sizes = list(tensor.shape)
    for size in (BATCH * LENGTH,) if BATCH * LENGTH in sizes else (BATCH, LENGTH):
        if size not in sizes:
            return 0
        sizes.remove(size)
    if width in sizes:
        sizes.remove(width)
        return math.prod(sizes)
    return math.prod(sizes) // width if sizes and sizes[-1] % width == 0 else 0


def is_norm(module: nn.Module) -> bool:
    """By name, as everybody's norms can be told: LayerNormModule, nn.RMSNorm. One that wraps modules is looked into."""
    named = any("norm" in cls.__name__.lower() for cls in type(module).__mro__)
    return named and not isinstance(module, Connection) and not any(module.children())


def named_weights(root: nn.Module) -> Iterator[tuple[int, Weight]]:
    for module in root.modules():
        constants = module.constants() if isinstance(module, Part) else ()
        born = {id(tensor): value for tensor, value in constants if isinstance(value, float | int)}
        for owned in (module.named_parameters(recurse=False), module.named_buffers(recurse=False)):
            for name, tensor in owned:
                yield id(tensor), Weight(name, tensor.numel(), tensor.dim() > 1, born.get(id(tensor)))


def unnamed(tensor: Tensor) -> Weight:
    return Weight("c", tensor.numel(), tensor.dim() > 1)


# -- folding ---------------------------------------------------------------------------------------------------

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
        """What a step is by itself; "element" and "rich" need their neighbours to be told."""
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
            if step.lanes == 0 and any(user_stretch != step.stretch for user_stretch in self.stretches_after(number)):
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

    def stretches_after(self, number: int) -> list[tuple[int, int]]:
        return [self.steps[user].stretch for user in self.users[number]]

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
        if len(group) == 1 and self.sorts[group[0]] in PLAIN:
            inputs = self.terms(group[0])
            kind, label = self.plain(group[0])
        else:
            inputs = [value for number in group for value in self.steps[number].values if value not in group]
            kind, label = self.weighted_sum(group) or self.rich(group, list(dict.fromkeys(inputs)))
        inside = re.fullmatch(r"blocks\.(\d+)\.((?:connections|sublayers)\.([^.]+).*)", last.path)
        layer, path, slot = (int(inside[1]), inside[2], inside[3]) if inside else (None, last.path, "")
        keys = tuple(dict.fromkeys(self.node_of[value].key for value in inputs))
        if kind == "sublayer":
            label = slot.replace("_", "-")
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
        return "mix", formula if 0 < len(formula) <= LONGEST_FORMULA else owner


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
    if argument.size == 1:
        name = "α" if argument.name == "weight" else "b" if argument.name == "bias" else argument.name
        return name if argument.born is None else f"{name} (born {argument.born:.3g})"
    name = "ω" if argument.name == "weight" else "b" if argument.name == "bias" else argument.name
    # A birth of 1 goes without saying: it is where a norm's and Admin's vectors start.
    birth = "" if argument.born in (None, 1.0) else f", born {argument.born:.3g}"
    return f"{name} (per feature{birth})"


def words(owner: nn.Module) -> str:
    """HighwayGate -> highway gate"""
    name = getattr(owner.function, "__name__", "") if isinstance(owner, End) else type(owner).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).strip().lower()


class Formula:
    """A group's arithmetic in letters: x from the stream, y from the sub-layer, g from a gate."""

    def __init__(self, fold: Fold, group: list[int], inputs: list[int]) -> None:
        self.steps, self.group = fold.steps, set(group)
        slot = (fold.steps[group[-1]].path.split(".connections.")[-1]).split(".")[0]
        self.letters: dict[int, str] = {}
        for value in inputs:
            node = fold.node_of[value]
            said = fold.said.get(node.key, (None, ""))[1] == slot
            letter = "g" if node.kind == "gate" else "w" if node.lanes == 0 else "y" if said else "x"
            while letter in self.letters.values():
                letter += "′"
            self.letters[value] = letter

    def text(self, number: int) -> str:
        return self.term(Value(number))[0]

    def term(self, argument: Argument) -> tuple[str, int]:
        """Text, and how tightly it binds: 0 a sum, 1 a product, 2 a letter or a call."""
        if isinstance(argument, float):
            return f"{argument:.3g}", 2
        if isinstance(argument, Weight):
            return "W" if argument.matrix else {"weight": "w", "bias": "b"}.get(argument.name, argument.name), 2
        if argument.step not in self.group:
            return self.letters[argument.step], 2
        step = self.steps[argument.step]
        terms = [self.term(each) for each in step.arguments]
        if step.name in ADD | SUBTRACT | SUBTRACT_FROM and len(terms) == 2:
            left, right = terms[::-1] if step.name in SUBTRACT_FROM else terms
            if step.name in ADD:
                return f"{left[0]} + {right[0]}", 0
            return f"{left[0]} − {bound(right, 1)}", 0
        if step.name in MULTIPLY and len(terms) == 2:
            return " ".join(bound(term, 1) for term in terms), 1
        if step.name in DIVIDE and len(terms) == 2:
            return f"{bound(terms[0], 1)} / {bound(terms[1], 2)}", 1
        if step.name == "linear":
            bias = f" + {terms[2][0]}" if len(terms) > 2 else ""
            return f"{bound(terms[1], 1)} {bound(terms[0], 1)}{bias}", 0 if bias else 1
        values = [term for term, each in zip(terms, step.arguments, strict=True) if not isinstance(each, float)]
        if step.name in PRODUCT:
            return " ".join(bound(term, 1) for term in values), 1
        if step.name in ("cat", "concat", "concatenate"):
            return f"[{' ; '.join(term for term, _ in values)}]", 2
        return f"{step.name.strip('_')}({', '.join(term for term, _ in values)})", 2


def bound(term: tuple[str, int], tightness: int) -> str:
    return term[0] if term[1] >= tightness else f"({term[0]})"


# -- the last touches ------------------------------------------------------------------------------------------


def needed(nodes: list[Node]) -> list[Node]:
    """What the output depends on."""
    used = {nodes[-1].key}
    for node in reversed(nodes):
        if node.key in used:
            used.update(node.inputs)
    return [node for node in nodes if node.key in used]


def bundled(nodes: list[Node]) -> tuple[Node, ...]:
    """Many inputs that go the same ways, the past of a deep layer, are drawn as one thick lane."""
    alike: dict[tuple[int, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind == "input":
            alike[tuple(user.key for user in nodes if node.key in user.inputs)].append(node)
    for group in alike.values():
        if len(group) > 2:
            first, *rest = group
            gone = {node.key for node in rest}
            label = f"{first.label} … {rest[-1].label}"
            bundle = Node(first.key, "input", label, lanes=len(group))
            nodes = [bundle if node is first else without(node, gone) for node in nodes if node.key not in gone]
    return tuple(nodes)


def without(node: Node, gone: Iterable[int]) -> Node:
    inputs = tuple(key for key in node.inputs if key not in set(gone))
    return Node(node.key, node.kind, node.label, inputs, node.path, node.layer, node.slot, node.lanes)
