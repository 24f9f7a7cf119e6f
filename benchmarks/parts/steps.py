"""A step: what one timed call does. Forward alone, or forward and backward; eager, or compiled."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from parts.blocks import Contestant
from torch import Tensor

PASSES = ("forward", "forward + backward")
WAYS = ("eager", "compiled")

Step = Callable[[], tuple[Tensor, ...]]
"""Returns what was computed, so that contestants can be checked against each other before they are timed."""


def make_step(contestant: Contestant, way: str, which: str) -> Step:
    call = contestant.call if way == "eager" else compiled(contestant.call)
    return forward(contestant, call) if which == "forward" else forward_backward(contestant, call)


def forward(contestant: Contestant, call: Callable[[Any], Any]) -> Step:
    def step() -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tensors(call(contestant.stream))

    return step


def forward_backward(contestant: Contestant, call: Callable[[Any], Any]) -> Step:
    """The gradient to the block's parameters and to the stream below, of a fixed one from above."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors(contestant.stream)]
    stream = leaves[0] if isinstance(contestant.stream, Tensor) else tuple(leaves)
    wanted = [*leaves, *contestant.parameters]
    from_above = [torch.ones_like(tensor) for tensor in tensors(call(stream))]

    def step() -> tuple[Tensor, ...]:
        outputs = tensors(call(stream))
        # A stream may hold what this block does not read (B2T's bottom of the block below).
        return torch.autograd.grad(outputs, wanted, from_above, allow_unused=True)

    return step


def tensors(stream: Any) -> tuple[Tensor, ...]:
    return (stream,) if isinstance(stream, Tensor) else tuple(stream)


def compiled(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Each contestant its own code object: compiled versions of one are kept in a list and searched at every call."""

    def run(stream: Any) -> Any:
        return call(stream)

    own = types.FunctionType(run.__code__.replace(), run.__globals__, "run", None, run.__closure__)
    return torch.compile(own, fullgraph=True, dynamic=False)
