"""A stack to hold against a paper: every parameter drawn at random, its sub-layers handed out as plain functions.

At birth many parameters are identities (gains 1, biases 0, alphas 0), and a wrong wiring could hide behind them. So all
of them are drawn anew, those of the sub-layers too: Fixup's last matrices, say, are born zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from addnorm.arrangements import CATALOGUE, Arrangement
from addnorm.models.build import make_spec
from addnorm.models.encoder_decoder import EncoderDecoderSpec
from addnorm.models.model import Model
from addnorm.models.stack import Stack
from tests.tolerances import assert_close

DTYPES = (torch.float32, torch.float64)
WIDTH, HEADS, VOCAB, BATCH, LENGTH = 12, 2, 11, 2, 4
DEPTH, OTHER_DEPTH = 3, 4  # different, so that a formula which takes one for the other is found out

AWAY = 0.4

SHAPES = ("encoder", "decoder", "encoder beside a decoder", "decoder beside an encoder")
"""Two sub-layers a block in the first three; three, with cross-attention, in the last."""


class Place(NamedTuple):
    """One sub-layer F, and the parameters p of its connection by their names in the model."""

    F: Callable[[Tensor], Tensor]
    p: dict[str, Tensor]


@dataclass
class Specimen:
    stack: Stack
    x: Tensor
    context: Any
    layers: list[list[Place]]
    close: dict[str, Tensor]

    def output(self) -> Tensor:
        return self.stack(self.x, self.context)


Reference = Callable[[Tensor, list[list[Place]], dict[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Case:
    shape: str
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.shape}, {str(self.dtype).removeprefix('torch.')}"


every_case = pytest.mark.parametrize("case", [Case(shape, dtype) for shape in SHAPES for dtype in DTYPES], ids=str)


def make_model(
    design: str | Arrangement,
    shape: str,
    dtype: torch.dtype = torch.float64,
    depth: int = DEPTH,
    other_depth: int = OTHER_DEPTH,
    seed: int = 0,
    **choices: Any,
) -> Model:
    """A model whose stack of that shape is `depth` deep."""
    sizes = {"width": WIDTH, "heads": HEADS, "vocab": VOCAB} | choices
    if shape in ("encoder", "decoder"):
        return make_spec(design, mode=shape, depth=depth, **sizes).build(seed).to(dtype)
    encoder, decoder = (depth, other_depth) if shape.startswith("encoder") else (other_depth, depth)
    arrangement = CATALOGUE[design] if isinstance(design, str) else design
    # Two tables, because T-Fixup asks for embeddings of different sizes where the depths differ.
    spec = EncoderDecoderSpec(arrangement=arrangement, depth=encoder, decoder_depth=decoder, source_vocab=VOCAB)
    return make_spec(spec, **sizes).build(seed).to(dtype)


def stack_of(model: Model, shape: str) -> Stack:
    side, *beside = shape.split()
    return getattr(model, side if beside else "stack")


def tokens(rows: int = BATCH, length: int = LENGTH, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def normal(size: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """The same numbers in every precision."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def batch_of(shape: str) -> tuple[Tensor, ...]:
    return (tokens(),) if shape in ("encoder", "decoder") else (tokens(length=LENGTH + 2, seed=1), tokens())


def arguments_of(model: Model, stack: Stack, batch: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
    """The (x, context) that the model itself would hand to the stack."""
    seen: list[tuple[Tensor, Any]] = []
    handle = stack.register_forward_pre_hook(lambda module, args: seen.append(args))
    with torch.no_grad():
        model(*batch)
    handle.remove()
    return seen[0]


@torch.no_grad()
def redraw(module: nn.Module, seed: int = 0) -> None:
    """Every parameter by a random amount away from its birth: no two alike, no identity left.

    Sub-layers are made gentle, as they are born in deep models: a branch that amplifies would amplify rounding.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = 2 * torch.rand(parameter.shape, generator=generator, dtype=torch.float64) - 1
        fan_in = parameter.shape[-1] if parameter.ndim > 1 else 1
        birth = 0.5 * parameter if ".sublayers." in name else parameter
        parameter.copy_(birth + AWAY * noise / fan_in**0.5)


def places(stack: Stack, context: Any) -> list[list[Place]]:
    def plain(sublayer: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda h: sublayer(h, context)

    return [
        [
            Place(plain(sublayer), dict(block.connections[name].named_parameters()))
            for name, sublayer in block.sublayers.items()
        ]
        for block in stack.blocks
    ]


def specimen(design: str | Arrangement, case: Case, seed: int = 0, **choices: Any) -> Specimen:
    """A stack of that design in that shape, redrawn, with a random input and the context its model makes."""
    model = make_model(design, case.shape, case.dtype, **choices)
    stack = stack_of(model, case.shape)
    redraw(model, seed)
    x, context = arguments_of(model, stack, batch_of(case.shape))
    x = normal(x.shape, seed + 1, case.dtype)
    if context.memory is not None:
        # Without skips all rows of an encoder's output become one, and cross-attention would not depend on its query.
        context = context._replace(memory=normal(context.memory.shape, seed + 2, case.dtype))
    close = dict(stack.close.named_parameters()) if isinstance(stack.close, nn.Module) else {}
    return Specimen(stack, x, context, places(stack, context), close)


def assert_follows(the: Specimen, reference: Reference) -> None:
    """The stack computes the reference's function; in float64 its derivatives as well."""
    x = the.x.requires_grad_()
    actual, expected = the.output(), reference(x, the.layers, the.close)
    assert_close(actual, expected, because="the stack's output is not the formula's")
    if x.dtype == torch.float64:
        names, parameters = zip(("x", x), *connection_parameters(the.stack), strict=True)
        probe = normal(actual.shape, 9)
        ours = torch.autograd.grad((actual * probe).sum(), parameters)
        theirs = torch.autograd.grad((expected * probe).sum(), parameters)
        # One size for all: behind a norm some gradients are rounding's and eps's alone, e.g. of a factor on all lanes.
        size = max(gradient.abs().max() for gradient in theirs)
        for name, mine, other in zip(names, ours, theirs, strict=True):
            assert other.any(), f"{name} has no part in the formula"
            assert_close(mine / size, other / size, because=f"gradient of {name}")


def connection_parameters(stack: Stack) -> list[tuple[str, Tensor]]:
    return [(name, parameter) for name, parameter in stack.named_parameters() if ".sublayers." not in name]


@torch.no_grad()
def twin(
    the: Specimen, design: str | Arrangement, case: Case, rename: Callable[[str], str] = lambda name: name
) -> Specimen:
    """A stack of another design around the same sub-layers, with the same norms where `rename` finds them a place.

    What the other design has beyond that stays as it was born.
    """
    model = make_model(design, case.shape, case.dtype, depth=len(the.layers))
    stack = stack_of(model, case.shape)
    ours, theirs = dict(stack.named_parameters()), dict(the.stack.named_parameters())
    for name, parameter in theirs.items():
        ours[rename(name)].copy_(parameter)
    close = dict(stack.close.named_parameters()) if isinstance(stack.close, nn.Module) else {}
    return Specimen(stack, the.x, the.context, places(stack, the.context), close)
