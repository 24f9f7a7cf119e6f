"""Part: a module that says how its own parameters are born."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from torch import Tensor, nn

Role = Literal[
    "embedding", "position", "query", "key", "value", "output", "up", "gate", "down", "head", "memory", "mix"
]  # fmt: skip
ROLES: tuple[Role, ...] = get_args(Role)


class Part(nn.Module):
    """Every module of ours that owns parameters is a Part, and speaks only of what it owns itself.

    weights    drawn at random, addressed by role; views are welcome (a fused projection yields three roles)
    constants  set to a value: norms, biases, scales, running statistics
    idle       parameters that provably never get a gradient, so that "every parameter learns" can be a test
    """

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        return iter(())

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        return iter(())

    def idle(self) -> Iterator[Tensor]:
        return iter(())


def same(x: Any) -> Any:
    """An empty place in a formula. A plain function, because calling an nn.Identity costs microseconds."""
    return x


def dropout(rate: float) -> Callable[[Tensor], Tensor]:
    """Dropout, or an empty place where nothing is dropped."""
    return nn.Dropout(rate) if rate > 0.0 else same


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Training or evaluation for a while; then every module in the mode it had, one set by hand too."""
    modes = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class Linear(nn.Linear, Part):
    """A matrix with a role. Parameters start empty: `initialise` writes them, and only it."""

    def __init__(self, fan_in: int, fan_out: int, role: Role, bias: bool = True) -> None:
        super().__init__(fan_in, fan_out, bias)
        self.role: Role = role

    def reset_parameters(self) -> None:
        """Nothing: drawing here would be drawing twice, and would move the caller's random state."""

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield self.role, self.weight

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        if self.bias is not None:
            yield self.bias, 0.0

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, role={self.role}"
