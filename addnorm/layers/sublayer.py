"""SublayerSpec: what a block is filled with. Content, chosen independently of the arrangement around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from addnorm.layers.context import Seat
from addnorm.layers.part import Part
from addnorm.spec import Spec, SpecError


class SublayerSpec(Spec, family="sublayer"):
    def check(self, seat: Seat) -> None:
        """Raise a SpecError where this content does not fit its seat; called when a model's Spec is made."""

    def check_cross(self, seat: Seat) -> None:
        """The same for its cross-attention form."""
        raise SpecError(f"{self.kind} has no cross-attention form; give cross-attention another content")

    @abstractmethod
    def build(self, seat: Seat) -> Part:
        """A module called as `module(h, context)`: (B, T, D) -> (B, T, D), dropout on the branch its last act."""

    def build_cross(self, seat: Seat) -> Part:
        """The same content reading keys and values from `context.memory`."""
        self.check_cross(seat)
        raise NotImplementedError(f"{type(self).__name__} passes check_cross, so it must have build_cross")

    def windows(self) -> set[int | None]:
        """The masks this content will ask its Context for; None is the stack's own."""
        return set()


class Repeating(SublayerSpec, kind="repeating"):
    """Contents that take turns by layer: `Repeating(pattern=(Attention(window=128), Attention()))`."""

    pattern: tuple[SublayerSpec, ...]

    def model_post_init(self, context: Any) -> None:
        if not self.pattern:
            raise SpecError("repeating: wanted at least one content in pattern, came none")

    def of_layer(self, layer: int) -> SublayerSpec:
        return self.pattern[layer % len(self.pattern)]

    def check(self, seat: Seat) -> None:
        for content in self.pattern:
            content.check(seat)

    def check_cross(self, seat: Seat) -> None:
        for content in self.pattern:
            content.check_cross(seat)

    def build(self, seat: Seat) -> Part:
        return self.of_layer(seat.layer).build(seat)

    def build_cross(self, seat: Seat) -> Part:
        return self.of_layer(seat.layer).build_cross(seat)

    def windows(self) -> set[int | None]:
        return {window for content in self.pattern for window in content.windows()}
