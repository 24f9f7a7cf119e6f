"""Attention written out, query by query: softmax over what a query may see, then the mean of those values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Sees = Callable[[int, int, int], bool]  # row of the batch, query, key


def softmax(logits: list[Tensor]) -> Tensor:
    powers = torch.exp(torch.stack(logits) - max(logits))
    return powers / powers.sum()


def attention(
    module: Any,
    h: Tensor,
    sees: Sees,
    heads: int,
    *,
    source: Tensor | None = None,
    kv_heads: int | None = None,
    scale: float | None = None,
    cap: float | None = None,
    prepare: Callable[[Tensor, str, int], Tensor] = lambda vector, which, position: vector,
    bias: Callable[[int, int, int], Tensor | float] = lambda head, t, s: 0.0,
    persistent: Callable[[int], tuple[list[Tensor], list[Tensor]]] = lambda head: ([], []),
) -> Tensor:
    """(B, T, D) -> (B, T, D) with a module's matrices.

    source      where keys and values come from; None: h itself
    kv_heads    key-value heads; query head i reads number i // (heads / kv_heads)
    prepare     what is done to one head's query or key: (vector, "query" or "key", position)
    persistent  a key-value head's own keys and values, which every query sees and no bias touches
    """
    source = h if source is None else source
    kv_heads = kv_heads or heads
    q, k, v = (project(part, x) for part, x in ((module.query, h), (module.key, source), (module.value, source)))
    width = q.shape[-1] // heads
    joined = torch.zeros(*h.shape[:2], heads * width, dtype=h.dtype)
    for b in range(h.shape[0]):
        for head in range(heads):
            mine, theirs = slice_of(head, width), slice_of(head * kv_heads // heads, width)
            own_keys, own_values = persistent(head * kv_heads // heads)
            for t in range(h.shape[1]):
                query = prepare(q[b, t, mine], "query", t)
                seen = [s for s in range(source.shape[1]) if sees(b, t, s)]
                logits = [query @ key for key in own_keys] + [query @ prepare(k[b, s, theirs], "key", s) for s in seen]
                logits = [logit * (width**-0.5 if scale is None else scale) for logit in logits]
                if cap is not None:
                    logits = [cap * torch.tanh(logit / cap) for logit in logits]
                extra = [0.0] * len(own_keys) + [bias(head, t, s) for s in seen]
                values = own_values + [v[b, s, theirs] for s in seen]
                if values:
                    weights = softmax([logit + more for logit, more in zip(logits, extra, strict=True)])
                    joined[b, t, mine] = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return project(module.output, joined)


def project(linear: Any, x: Tensor) -> Tensor:
    y = x @ linear.weight.T
    return y if linear.bias is None else y + linear.bias


def slice_of(head: int, width: int) -> slice:
    return slice(head * width, (head + 1) * width)
