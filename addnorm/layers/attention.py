"""Attention: a soft dictionary look-up. y = softmax(scale * q k' + mask) v, in H heads, then joined."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.context import Context, Seat
from addnorm.layers.masks import Mask
from addnorm.layers.norms import NoNorm, Norm
from addnorm.layers.part import Linear, Part, Role, dropout
from addnorm.layers.positions import Rotate, unmoved
from addnorm.layers.sublayer import SublayerSpec
from addnorm.spec import Bool, Count, Positive, Spec, SpecError

# -- the core: one softmax, two ways to compute it ---------------------------------------------------------


class Core(Spec, family="attention_core"):
    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float | None, dropout: float) -> Tensor:
        """(B, H, T, d), (B, K, S, d), (B, K, S, d) -> (B, H, T, d); K divides H."""


class SDPA(Core, kind="sdpa"):
    """torch's fused kernels."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float | None, dropout: float) -> Tensor:
        shown = mask.allowed if mask.bias is None else mask.bias.to(q.dtype)
        return F.scaled_dot_product_attention(
            q, k, v, shown, dropout, mask.causal, scale=scale, enable_gqa=k.shape[1] != q.shape[1]
        )


class WrittenOut(Core, kind="written_out"):
    """The same softmax, step by step: for soft-capped logits, and for looking at the attention map."""

    cap: Positive | None = None
    """Logits squeezed into (-cap, cap) by cap * tanh(logits / cap) (Gemma 2)."""

    def map(self, q: Tensor, k: Tensor, mask: Mask, scale: float | None) -> Tensor:
        """The attention map, (B, H, T, S); each row sums to one."""
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        logits = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
        if self.cap is not None:
            logits = self.cap * torch.tanh(logits / self.cap)
        if mask.bias is not None:
            logits = logits + mask.bias
        elif mask.allowed is not None:
            logits = logits.masked_fill(~mask.allowed, float("-inf"))
        elif mask.causal:
            triangle = logits.new_ones(logits.shape[-2:], dtype=torch.bool).tril()
            logits = logits.masked_fill(~triangle, float("-inf"))
        return torch.softmax(logits.float() if logits.dtype != torch.float64 else logits, dim=-1).to(q.dtype)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float | None, dropout: float) -> Tensor:
        v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
        return F.dropout(self.map(q, k, mask, scale), dropout) @ v


# -- the sub-layer -----------------------------------------------------------------------------------------


class Attention(SublayerSpec, kind="attention"):
    kv_heads: Count | None = None
    """Grouped heads: how many key-value heads the query heads share; None: each its own."""
    head_width: Count | None = None
    """Features per head; None: width / heads."""
    bias: Bool = True
    scale: Positive | None = None
    """Times the logits; None: 1 / sqrt(head width). T5: 1."""
    window: Count | None = None
    """A query sees keys less than this far away; None: as far as the mask lets it. Self-attention's alone: distance has
    no meaning between two sequences."""
    query_key_norm: Norm = NoNorm()
    """QK-norm (Henry et al. 2020, arXiv:2010.04245; ViT-22B, OLMo 2, Qwen3): bounds the logits."""
    query_key_norm_over: Literal["head", "width"] = "head"
    """Qwen3 and Gemma 3 normalise each head; OLMo 2 all heads together, before they are split."""
    persistent: Annotated[int, Strict(), Field(ge=0)] = 0
    """Learned key-value pairs in every head, always visible (Sukhbaatar et al. 2019, arXiv:1907.01470)."""
    core: Core = SDPA()

    def heads_of(self, seat: Seat) -> tuple[int, int, int]:
        """Query heads, key-value heads, head width; raises where they do not fit."""
        heads, kv_heads = seat.heads, self.kv_heads or seat.heads
        if self.head_width is None and seat.width % heads:
            raise SpecError(
                f"attention: wanted a width divisible by heads, came width {seat.width} and heads {heads}; "
                "change one, or set attention.head_width"
            )
        if heads % kv_heads:
            raise SpecError(f"attention: wanted kv_heads that divide heads, came {kv_heads} and {heads}")
        return heads, kv_heads, self.head_width or seat.width // heads

    def check(self, seat: Seat) -> None:
        _, _, head_width = self.heads_of(seat)
        seat.positions.rotation(head_width)

    def windows(self) -> set[int | None]:
        return {self.window}

    def build(self, seat: Seat) -> Part:
        return SelfAttentionModule(self, seat)

    def check_cross(self, seat: Seat) -> None:
        self.heads_of(seat)

    def build_cross(self, seat: Seat) -> Part:
        return CrossAttentionModule(self, seat)


class AttentionModule(Part):
    """What self- and cross-attention share. Abstract: where keys and values come from is the subclass's."""

    def __init__(self, spec: Attention, seat: Seat) -> None:
        super().__init__()
        heads, kv_heads, d = spec.heads_of(seat)
        self.query = Linear(seat.width, heads * d, "query", spec.bias)
        self.key = Linear(seat.width, kv_heads * d, "key", spec.bias)
        self.value = Linear(seat.width, kv_heads * d, "value", spec.bias)
        self.output = Linear(heads * d, seat.width, "output", spec.bias)
        whole = spec.query_key_norm_over == "width"
        self.query_norm = spec.query_key_norm.build(heads * d if whole else d)
        self.key_norm = spec.query_key_norm.build(kv_heads * d if whole else d)
        self.persistent = Persistent(kv_heads, spec.persistent, d) if spec.persistent else None
        self.spec, self.head_width, self.norm_whole = spec, d, whole
        self.rotate: Rotate = unmoved
        self.weight_dropout, self.dropout = seat.dropout.attention, dropout(seat.dropout.branch)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # (B, T, H*d) -> (B, H, T, d)

    def queries(self, h: Tensor) -> Tensor:
        return self._normed(self.query(h), self.query_norm)

    def keys(self, source: Tensor) -> Tensor:
        return self._normed(self.key(source), self.key_norm)

    def values(self, source: Tensor) -> Tensor:
        return self.split(self.value(source))

    def _normed(self, x: Tensor, norm: Any) -> Tensor:
        return self.split(norm(x)) if self.norm_whole else norm(self.split(x))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        if self.persistent is not None:
            k, v, mask = self.persistent(k, v, mask, q.shape[-2])
        y = self.spec.core.attend(q, k, v, mask, self.spec.scale, self.weight_dropout if self.training else 0.0)
        if mask.empty is not None:
            y = y.masked_fill(mask.empty, 0.0)
        return self.dropout(self.output(y.transpose(1, 2).flatten(-2)))  # (B, H, T, d) -> (B, T, D)

    def idle(self) -> Iterator[Tensor]:
        # q'(k + b) adds the same q'b to every logit of a row, and softmax does not see it: unless something between
        # bias and softmax is not a shift (a norm, a rotation, a cap), or some keys do not carry the bias.
        shifted = self.rotate is unmoved and self.persistent is None and isinstance(self.spec.query_key_norm, NoNorm)
        capped = isinstance(self.spec.core, WrittenOut) and self.spec.core.cap is not None
        if self.key.bias is not None and shifted and not capped:
            yield self.key.bias


class SelfAttentionModule(AttentionModule):
    def __init__(self, spec: Attention, seat: Seat) -> None:
        super().__init__(spec, seat)
        self.rotate = seat.positions.rotation(self.head_width)

    def forward(self, h: Tensor, context: Context) -> Tensor:
        q = self.rotate(self.queries(h), context.positions)
        k = self.rotate(self.keys(h), context.positions)
        k, v = context.cache.extend(self, k, self.values(h))
        return self.attend(q, k, v, context.masks[self.spec.window])


class CrossAttentionModule(AttentionModule):
    """Keys and values from the encoder's output. Positions are the encoder's own affair: nothing is rotated."""

    def forward(self, h: Tensor, context: Context) -> Tensor:
        memory = context.memory
        assert memory is not None, "cross-attention without memory"
        k, v = context.cache.memory(self, lambda: (self.keys(memory), self.values(memory)))
        return self.attend(self.queries(h), k, v, context.memory_mask)


class Persistent(Part):
    """Key-value pairs that belong to no token. Each table is a matrix (out, in), so that its fan is its last axis."""

    def __init__(self, heads: int, slots: int, head_width: int) -> None:
        super().__init__()
        self.key = nn.Parameter(torch.empty(heads, slots, head_width))
        self.value = nn.Parameter(torch.empty(heads, head_width, slots))

    def forward(self, k: Tensor, v: Tensor, mask: Mask, rows: int) -> tuple[Tensor, Tensor, Mask]:
        """The pairs stand before the context's, used times sqrt(fan): unit variance whatever their number."""
        slots, d = self.key.shape[1:]
        batch, columns = k.shape[0], k.shape[2]
        keys = (self.key * d**0.5).expand(batch, -1, -1, -1).to(k.dtype)
        values = (self.value * slots**0.5).transpose(1, 2).expand(batch, -1, -1, -1).to(v.dtype)
        if mask.bias is not None:
            shut = mask.bias if mask.empty is None else mask.bias.masked_fill(mask.empty, float("-inf"))
            mask = mask._replace(bias=F.pad(shut, (slots, 0), value=0.0))
        if mask.causal:
            mask = Mask(allowed=k.new_ones(1, 1, rows, columns, dtype=torch.bool).tril())
        if mask.allowed is not None:
            # Rows that could see nothing now see the persistent pairs: close what had been opened for them.
            shown = mask.allowed if mask.empty is None else mask.allowed & ~mask.empty
            mask = mask._replace(allowed=F.pad(shown, (slots, 0), value=True), empty=None)
        return torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2), mask

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "memory", self.key
        yield "memory", self.value
