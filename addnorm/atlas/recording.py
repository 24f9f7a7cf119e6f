"""Recording: every operation on a value that came from the input, in order, with the module that asked for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from addnorm.arrangements.base import Connection
from addnorm.atlas.sketch import BATCH, LENGTH, StandIn, anything
from addnorm.layers.norms import NormModule
from addnorm.layers.part import Part


@dataclass(frozen=True)
class Value:
    """What a step made."""

    step: int


@dataclass(frozen=True)
class Weight:
    """A learned tensor, or something computed from learned tensors alone."""

    name: str
    per_feature: bool
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
RESHAPES = """
    view view_as reshape unsqueeze squeeze expand expand_as broadcast_to flatten unflatten repeat stack select
    transpose permute movedim swapaxes contiguous clone detach requires_grad_ dropout alpha_dropout __getitem__
    to type type_as float half bfloat16 double
"""
RESHAPE = {"__get__", *RESHAPES.split()}  # __get__: properties that are tensors, as x.T
BLANK = {"zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0}


class Recorder(TorchFunctionMode):
    """Notes the steps of a module's forward. Values are real (meta) tensors: any Python may stand around them."""

    def __init__(self, root: nn.Module, width: int) -> None:
        super().__init__()
        self.width = width
        self.steps: list[Step] = []
        self.frames = [Frame(root, "", 0)]
        self.serial, self.muted = 0, 0
        self.values: dict[int, Value] = {}
        self.constants: dict[int, float] = {}
        self.weights = dict(named_weights(root, width))
        self.alive: list[Tensor] = []  # tensors are known by their id, which must not be given to another
        self.hooks = [hook for path, module in root.named_modules() for hook in self.watch(module, path)]

    def __exit__(self, *error: Any) -> None:
        for hook in self.hooks:
            hook.remove()
        super().__exit__(*error)

    def watch(self, module: nn.Module, path: str) -> Iterator[Any]:
        one_node = isinstance(module, StandIn) or is_norm(module)
        if is_norm(module):
            module.forward = anything

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
        made = [item for item in leaves(result) if isinstance(item, Tensor)]
        if not in_place:
            made = [tensor for tensor in made if not any(tensor is old for old in before)]
        if not made:
            return
        self.alive += made
        arguments = tuple(known for item in before if (known := self.argument(item)) is not None)
        values = [argument for argument in arguments if isinstance(argument, Value)]
        if name in BLANK:
            self.constants |= dict.fromkeys(map(id, made), BLANK[name])
        elif not values:
            self.derive(name, arguments, made)
        else:
            lanes = [lanes_of(tensor, self.width) for tensor in made]
            idle = self.changes_nothing(name, arguments, lanes)
            value = values[0] if idle else self.add(name, arguments, max(lanes))
            self.values |= dict.fromkeys(map(id, made), value)

    def add(self, name: str, arguments: tuple[Argument, ...], lanes: int) -> Value:
        frame = self.frames[-1]
        self.steps.append(Step(name, arguments, frame.owner, frame.path, (frame.serial, frame.calls), lanes))
        return Value(len(self.steps) - 1)

    def argument(self, item: Any) -> Argument | None:
        if isinstance(item, Tensor):
            for known in (self.values, self.constants, self.weights):
                if id(item) in known:
                    return known[id(item)]
            return Weight("c", item.shape[-1:] == (self.width,), item.dim() > 1)
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
            per_feature = tensor.shape[-1:] == (self.width,)
            self.weights[id(tensor)] = Weight(origin.name, per_feature, tensor.dim() > 1, None, element)

    def changes_nothing(self, name: str, arguments: tuple[Argument, ...], lanes: list[int]) -> bool:
        values = [argument for argument in arguments if isinstance(argument, Value)]
        if name in RESHAPE:
            return len(set(values)) == 1 and {self.steps[values[0].step].lanes} == set(lanes)
        neutral = 0.0 if name in ADD | SUBTRACT else 1.0 if name in MULTIPLY | DIVIDE else None
        movable = name in ADD | MULTIPLY  # 0 + x is x, but 0 - x is not, and neither is 1 / x
        return neutral is not None and (neutral in arguments[1:2] or (movable and neutral in arguments[:1]))


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
    """Ours by their class, anybody's by name, as nn.RMSNorm. A foreign one that wraps other modules is looked into."""
    named = any("norm" in cls.__name__.lower() for cls in type(module).__mro__)
    foreign = named and not isinstance(module, Connection) and not any(module.children())
    return foreign or isinstance(module, NormModule)


def named_weights(root: nn.Module, width: int) -> Iterator[tuple[int, Weight]]:
    for module in root.modules():
        constants = module.constants() if isinstance(module, Part) else ()
        born = {id(tensor): value for tensor, value in constants if isinstance(value, float | int)}
        for owned in (module.named_parameters(recurse=False), module.named_buffers(recurse=False)):
            for name, tensor in owned:
                per_feature = tensor.shape[-1:] == (width,)
                yield id(tensor), Weight(name, per_feature, tensor.dim() > 1, born.get(id(tensor)))
