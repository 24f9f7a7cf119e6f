"""What a design costs beside Pre-LN of the same size, measured on the model itself (on the meta device: no numbers)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements import Arrangement, PreLN
from addnorm.layers.context import Context
from addnorm.layers.masks import Mask
from addnorm.layers.norms import NormModule
from addnorm.models.build import MODES, Mode
from addnorm.models.stack import Stack


@dataclass(frozen=True)
class Cost:
    parameters: int
    saved: int  # bytes kept for the backward pass, per token
    stream: float  # numbers per token and feature that live between the last two blocks: 1 for a plain stream
    final_norm: bool


@cache
def cost(design: Arrangement, mode: Mode = "encoder", depth: int = 6, width: int = 512, heads: int = 8) -> Cost:
    with torch.device("meta"):
        model: Any = MODES[mode](arrangement=design, depth=depth, width=width, heads=heads).build()
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    last = stacks[-1]
    return Cost(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        saved=sum(saved_bytes(stack, width) for stack in stacks),
        stream=stream_numbers(last, width) / width,
        final_norm=isinstance(last.close, nn.Module)
        and any(isinstance(part, NormModule) for part in last.close.modules()),
    )


def baseline(mode: Mode, depth: int, width: int, heads: int) -> Cost:
    return cost(PreLN(), mode, depth, width, heads)


TOKENS = 64


def saved_bytes(stack: Stack, width: int) -> int:
    """Distinct storages that autograd keeps in one forward, parameters left out, over the number of tokens."""
    parameters = {parameter.untyped_storage()._cdata for parameter in stack.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in parameters:
            kept[key] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = stack(*example(stack, width))
    size = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del output
    return size // TOKENS


def example(stack: Stack, width: int) -> tuple[Tensor, Context]:
    x = torch.empty(1, TOKENS, width, device="meta", requires_grad=True)
    windows = {window for content in stack.plan.contents.values() for window in content.windows()}
    context = Context(
        torch.arange(TOKENS, device="meta")[None],
        {window: Mask(causal=stack.plan.side == "decoder") for window in windows},
        memory=torch.empty(1, TOKENS, width, device="meta", requires_grad=True),
    )
    return x, context


def stream_numbers(stack: Stack, width: int) -> int:
    """Of one token, before the last block closes."""
    x, context = example(stack, width)
    with torch.no_grad():
        stream = stack.open(x)
        for block in stack.blocks:
            stream = block(stream, context)
    tensors = stream if isinstance(stream, tuple) else (stream,)
    # Two places that hold the same tensor (a block's input that is also its bottom) cost one.
    distinct = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() for tensor in distinct.values()) // TOKENS
