"""Every parameter is written, exactly once, by a rule that can be named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Site
from addnorm.init.bases import Base
from addnorm.layers.part import Part, Role


class Sited(Protocol):
    """A model that knows where its parts sit."""

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


@torch.no_grad()
def initialise(model: Sited, base: Base, seed: int = 0) -> None:
    """weight = base(fan) x gain(site, role), from a generator seeded by (seed, parameter name, role).

    Drawn on the CPU in float32 and cast: one seed gives one set of weights on every device and in every dtype, and two
    designs at one seed start from identical sub-layer weights, up to their gains.
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed: wanted an integer, came {seed!r}")
    names = {parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()}
    written: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in names.values()}
    drawn: dict[tuple[str, Role], float] = {}
    for design, site, part in parts(model):
        for role, tensor in part.weights():
            name, gain = names[tensor.untyped_storage().data_ptr()], design.gain(site, role)
            before = drawn.setdefault((name, role), gain)
            if before != gain:
                raise ValueError(
                    f"{name} is shared by two sites that ask for different gains, {before:.4g} and {gain:.4g}; "
                    "untie it, or make the two stacks' designs and depths agree"
                )
            if gain == 0.0:
                tensor.zero_()
            else:
                tensor.copy_(base.draw(site, role, tensor.shape, _generator(seed, name, role, tensor)) * gain)
            _constrain(design, site, role, tensor)
            written[name][region(tensor)] = tensor.numel()
        for tensor, value in part.constants():
            tensor.copy_(value) if isinstance(value, Tensor) else tensor.fill_(value)
            owner = names.get(tensor.untyped_storage().data_ptr())  # None: a buffer, such as a running mean
            if owner is not None:
                written[owner][region(tensor)] = tensor.numel()
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    missed = [name for name, size in sizes.items() if sum(written[name].values()) < size]
    if missed:
        raise ValueError(
            f"no rule gives birth to {', '.join(missed)}; yield them from weights() or constants() of the Part that "
            "owns them, and yield the Part from the model's sites()"
        )


def region(tensor: Tensor) -> tuple[int, ...]:
    """Which part of its storage a view is."""
    return tensor.storage_offset(), *tensor.shape, *tensor.stride()


@torch.no_grad()
def constrain(model: Sited) -> None:
    """Bring back every weight that its design keeps on a constraint; call it after each optimizer step."""
    for design, site, part in parts(model):
        for role, tensor in part.weights():
            _constrain(design, site, role, tensor)


def parts(model: Sited) -> Iterator[tuple[Arrangement, Site, Part]]:
    """Every Part of the model, with the site it belongs to."""
    for design, site, module in model.sites():
        for part in module.modules():
            if isinstance(part, Part):
                yield design, site, part


def _constrain(design: Arrangement, site: Site, role: Role, tensor: Tensor) -> None:
    rule = design.constrain(site, role)
    if rule is not None:
        rule(tensor)


def _generator(seed: int, name: str, role: Role, tensor: Tensor) -> torch.Generator:
    # Two views of one role in one parameter, stacked experts say, must not be born as copies.
    where = f"/{tensor.storage_offset()}" if tensor.storage_offset() else ""
    digest = hashlib.sha256(f"{seed}/{name}/{role}{where}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)
