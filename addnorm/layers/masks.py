"""Masks: who may see whom. Boolean, True = may be attended.

A mask is a rule on positions, so that one rule serves training, padded batches and cached decoding alike:

    fully_visible   always
    causal          key <= query
    prefix_causal   key <= query, or key inside the prefix
    window w        additionally  |query - key| < w        (asked for by an attention, per layer)
    padding         additionally  the key is real
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from torch import Tensor

from addnorm.spec import Spec


class Mask(NamedTuple):
    """What attention is handed. All None: everybody sees everybody."""

    allowed: Tensor | None = None  # (B or 1, 1, T, S) bool; rows that may see nothing are opened, see `empty`
    causal: bool = False  # the lower triangle and nothing else: kernels know it without being shown
    empty: Tensor | None = None  # (B or 1, 1, T, 1) bool: rows that may see nothing; their attention is zero
    bias: Tensor | None = None  # (B or 1, H, T, S) float, -inf where not allowed


class Visibility(Spec, family="visibility"):
    causal: ClassVar[bool] = False
    """No query sees a later key (outside a prefix)."""

    @abstractmethod
    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | None) -> Tensor:
        """(B, T, 1) and (B, 1, S) positions -> (B, T, S) bool."""


class FullyVisible(Visibility, kind="fully_visible"):
    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | None) -> Tensor:
        return (query >= 0) & (key >= 0)


class Causal(Visibility, kind="causal"):
    causal: ClassVar[bool] = True

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | None) -> Tensor:
        return key <= query


class PrefixCausal(Visibility, kind="prefix_causal"):
    """Fully visible inside the first `prefix` tokens of each row, causal after them (Raffel et al. 2020)."""

    causal: ClassVar[bool] = True

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | None) -> Tensor:
        assert prefix is not None
        return (key <= query) | (key < prefix[:, None, None])


def make_masks(
    rule: Visibility,
    windows: Iterable[int | None],
    query: Tensor,
    key: Tensor,
    real: Tensor | None,
    prefix: Tensor | None,
    fresh: bool,
) -> dict[int | None, Mask]:
    """One Mask for every window that some layer asks for.

    query (B or 1, T) and key (B or 1, S): positions. real (B, S): which keys are not padding; None: all.
    fresh: the keys are the queries, in order from 0, so that the causal triangle needs no tensor.
    """
    masks: dict[int | None, Mask] = {}
    for window in windows:
        plain = window is None and real is None and fresh
        if plain and isinstance(rule, FullyVisible):
            masks[window] = Mask()
        elif plain and isinstance(rule, Causal):
            masks[window] = Mask(causal=True)
        else:
            q, k = query[:, :, None], key[:, None, :]
            allowed = rule.allowed(q, k, prefix)  # (B, T, S)
            if window is not None:
                allowed = allowed & ((q - k).abs() < window)
            if real is not None:
                allowed = allowed & real[:, None, :]
            masks[window] = from_allowed(allowed, may_be_empty=real is not None)
    return masks


def memory_mask(real: Tensor | None) -> Mask:
    """Cross-attention: every query sees every real row of the memory."""
    return Mask() if real is None else from_allowed(real[:, None, :], may_be_empty=True)


def from_allowed(allowed: Tensor, may_be_empty: bool) -> Mask:
    """A softmax over nothing is NaN. A row that may see nothing is shown everything, and its answer made zero."""
    allowed = allowed[:, None]  # (B, 1, T, S)
    if not may_be_empty:
        return Mask(allowed=allowed)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return Mask(allowed=allowed | empty, empty=empty)


def with_bias(mask: Mask, bias: Tensor) -> Mask:
    """Add a position bias (B or 1, H, T, S) once per forward instead of once per layer."""
    if mask.causal:
        rows, columns = bias.shape[-2:]
        return mask._replace(causal=False, bias=bias.masked_fill(~_triangle(rows, columns, bias), float("-inf")))
    if mask.allowed is not None:
        return mask._replace(bias=bias.masked_fill(~mask.allowed, float("-inf")))
    return mask._replace(bias=bias)


def _triangle(rows: int, columns: int, like: Tensor) -> Tensor:
    return like.new_ones(rows, columns).tril().bool()
