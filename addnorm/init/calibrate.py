"""Data-dependent birth: one forward on one batch, in which each connection may set itself (Admin)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn

from addnorm.arrangements.base import Connection, Side, Stream, Sublayer
from addnorm.init.initialise import Sited
from addnorm.layers.context import Context
from addnorm.layers.part import in_mode


@torch.no_grad()
def calibrate(model: Sited, *batch: Tensor | None, seed: int = 0) -> int:
    """Run `model(*batch)` once in training mode and let every connection see its x and y in order.

    Returns how many connections changed a parameter. Harmless for designs that need nothing: call it always. Leaves the
    random state and the training mode as they were. On several ranks, rank 0's batch and one seed serve all, and the
    outcome is checked to be equal.
    """
    if not isinstance(model, nn.Module) or not hasattr(model, "sites"):
        raise TypeError(f"calibrate: wanted a model of addnorm, which knows its sites, came {type(model).__name__}")
    strange = [type(tensor).__name__ for tensor in batch if tensor is not None and not isinstance(tensor, Tensor)]
    if strange:
        raise TypeError(
            f"calibrate: wanted tensors, as the model is called with, came {strange[0]}; calibrate(model, tokens), "
            "or calibrate(model, source, target) for an encoder-decoder"
        )
    if not batch:
        raise ValueError("calibrate: wanted a batch to look at, came none; call calibrate(model, tokens)")
    batch = tuple(None if tensor is None else _from_rank_zero(tensor) for tensor in batch)
    connections = {
        id(module): (site.side, module)
        for _, site, top in model.sites()
        for module in top.modules()
        if isinstance(module, Connection)
    }
    before = {key: _fingerprint(connection) for key, (_, connection) in connections.items()}
    carries: dict[Side, float] = {"encoder": 1.0, "decoder": 1.0}

    def watch(side: Side) -> Callable[..., Any]:
        def hook(connection: nn.Module, args: tuple[Stream, Sublayer, Context]) -> tuple[Any, ...]:
            assert isinstance(connection, Connection)
            stream, sublayer, context = args
            x = connection.view(stream)

            def heard(h: Tensor, context: Context) -> Tensor:
                y = sublayer(h, context)
                carries[side] = connection.calibrate(carries[side], x, y)
                return y

            return stream, heard, context

        return hook

    handles = [connection.register_forward_pre_hook(watch(side)) for side, connection in connections.values()]
    devices = sorted({tensor.device.index for tensor in batch if tensor is not None and tensor.is_cuda})
    try:
        with torch.random.fork_rng(devices=devices), in_mode(model, training=True):
            torch.manual_seed(seed)
            model(*batch)
        for _, connection in connections.values():
            connection.settle()
    finally:
        for handle in handles:
            handle.remove()
    after = {key: _fingerprint(connection) for key, (_, connection) in connections.items()}
    _assert_equal_on_all_ranks(list(after.values()))
    return sum(before[key] != after[key] for key in before)


def _fingerprint(connection: Connection) -> tuple[float, ...]:
    return tuple(parameter.double().sum().item() for parameter in connection.parameters())


def _from_rank_zero(tensor: Tensor) -> Tensor:
    if not (distributed.is_available() and distributed.is_initialized()):
        return tensor
    kind: list[Any] = [(tensor.shape, tensor.dtype)]
    distributed.broadcast_object_list(kind, src=0)
    shape, dtype = kind[0]
    theirs = tensor.clone() if distributed.get_rank() == 0 else torch.empty(shape, dtype=dtype, device=tensor.device)
    distributed.broadcast(theirs, src=0)
    return theirs


def _assert_equal_on_all_ranks(mine: list[tuple[float, ...]]) -> None:
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    everybody: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everybody, mine)
    if any(other != everybody[0] for other in everybody):
        raise RuntimeError("calibrate: the ranks disagree: their weights differed before; check the seed")
