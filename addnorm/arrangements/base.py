"""The interface: how sub-layers meet the residual stream.

A Transformer stack is a list of sub-layers, each a function of the same shape, and an **arrangement**: how each
sub-layer's input is *read* from the stream and its output *written* back, how the stream is *opened* from the embedding
and *closed* for the head, and how weights are born.

    stream = open(x)
    for every site:   h, stream = connection.read(stream)
                      stream    = connection.write(stream, sublayer(h))
    x = close(stream)

To add a design: one Arrangement (a Spec) whose `connect` returns a Connection. See `local.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final

from torch import Tensor

from addnorm.layers.context import Context
from addnorm.layers.part import Part, Role, same
from addnorm.spec import Spec

Stream = Tensor | tuple[Any, ...]
"""What flows through depth: a tensor, or a tuple of tensors. Opaque to all but its arrangement."""

Side = Literal["encoder", "decoder"]
Kind = Literal[
    "embedding", "open", "self_attention", "cross_attention", "feed_forward", "parallel", "close", "head"
]  # fmt: skip


@dataclass(frozen=True)
class Site:
    """Where one sub-layer sits: all that a paper's formula may ask about a place.

    The ends of a stack are places too: embedding and open at layer 0, close and head at layer `depth`, slot 0.
    """

    side: Side
    kind: Kind
    layer: int  # from 0
    slot: int  # which sub-layer of its block, from 0 ...
    slots: int  # ... of how many
    depth: int  # layers of this stack
    other_depth: int  # layers of the other stack; 0 where there is none
    width: int
    heads: int

    @property
    def index(self) -> int:
        """Which sub-layer of the stack, from 0."""
        return self.layer * self.slots + self.slot

    @property
    def first_slot(self) -> bool:
        return self.slot == 0

    @property
    def last_slot(self) -> bool:
        return self.slot == self.slots - 1


class Sublayer(Protocol):
    """Attention, feed-forward, ...: passed to a connection, not owned by it."""

    def __call__(self, h: Tensor, context: Context) -> Tensor: ...


class Connection(Part):
    """One sub-layer's meeting with the stream.

    Position-wise: it may mix depth and features, never positions. From this follows that cached decoding is right for
    every design without a line of code. Stateless between calls: what `write` needs travels in the stream that `read`
    returns, so that checkpointing, recursion and threads are safe.
    """

    @abstractmethod
    def read(self, stream: Any) -> tuple[Tensor, Stream]:
        """The sub-layer's input h, and the stream that `write` will need."""

    @abstractmethod
    def write(self, stream: Any, y: Tensor) -> Stream:
        """The stream after the sub-layer said y."""

    @final  # type: ignore[misc]  # nn.Module declares `forward` an attribute; here it is a method, and the last word
    def forward(self, stream: Stream, sublayer: Sublayer, context: Context) -> Stream:
        h, stream = self.read(stream)
        return self.write(stream, sublayer(h, context))

    def view(self, stream: Any) -> Tensor:
        """The (B, T, D) tensor that a probe should call x."""
        return stream

    def calibrate(self, carry: float, x: Tensor, y: Tensor) -> float:
        """Data-dependent birth: called once per site, in order, inside one forward, between read and write.

        x is `view(stream)`, y the sub-layer's output; the carry starts at 1.0 on each side.
        """
        return carry

    def settle(self) -> None:
        """Called when that forward is over, for what must not change while it runs."""


class Arrangement(Spec, family="arrangement"):
    """The recipe of one design, for every site of every model shape.

    Every design   connect
    Most           open, close (a final norm), gain
    Few            form (a stream that is not one tensor), numbers (to be shown), basis_free, refuses, constrain, rate

    Docstring of a design: a title, the lines `Formula`, `Cures`, `Costs`, `Warm-up`, `Paper`, and a `NOTE[DIFF]` for
    each place where the code departs from the paper. `addnorm show` and docs/designs.md are made from it.
    """

    @abstractmethod
    def connect(self, site: Site) -> Connection: ...

    def open(self, site: Site) -> Callable[[Tensor], Stream]:
        """(B, T, D) -> stream."""
        return same

    def close(self, site: Site) -> Callable[[Any], Tensor]:
        """Stream -> (B, T, D)."""
        return same

    def gain(self, site: Site, role: Role) -> float:
        """Times the base initialisation of that weight; 0.0: born zero."""
        return 1.0

    def refuses(self, base: Spec) -> str:
        """Why weights of this design must not be drawn from that base initialisation; empty where they may."""
        return ""

    def constrain(self, site: Site, role: Role) -> Callable[[Tensor], None] | None:
        """Done to that weight in place, at birth, and after every optimizer step by `addnorm.init.constrain(model)`."""
        return None

    def rate(self, site: Site, role: Role) -> float:
        """Times the learning rate of that weight, for whoever makes the optimizer's groups."""
        return 1.0

    def form(self) -> str:
        """The stream's form in words; designs of one form can follow each other in one stack."""
        return "x"

    @property
    def basis_free(self) -> bool:
        """No privileged basis: rotating every reader and writer of the stream by one orthogonal matrix changes nothing,
        with RMS norms of unit gain. Designs that act on single features, as a gate or a relu does, say False."""
        return True

    def numbers(self, site: Site) -> dict[str, float]:
        """What this design computes for a site beside its gains, for people to see."""
        return {}
