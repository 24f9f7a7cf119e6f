"""Positions: three places where a model may learn where a token stands.

| kind         | acts on        | formula                                                              |
|--------------|----------------|----------------------------------------------------------------------|
| sinusoidal   | the embedding  | x_t + [sin(t w_0), cos(t w_0), sin(t w_1), ...], w_i = base^(-2i/D)   |
| learned      | the embedding  | x_t + P_t                                                            |
| index        | the embedding  | x_t + t v       (naive, for study: it grows without bound)           |
| rotary       | query and key  | pairs of features turned by the angle t w_i                          |
| alibi        | the logits     | - slope_h |t - s|                                                    |
| relative     | the logits     | B[bucket(s - t), h]     (T5; one table per stack)                    |
| no_positions |                |                                                                      |

Tables are computed from integer positions, in float32 at least, whatever the model's precision: no length
limit but `learned`'s, no buffer to save, and right for padded rows and cached decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.part import Part, Role
from addnorm.spec import Count, Positive, Spec, SpecError

Add = Callable[[Tensor, Tensor], Tensor]  # x (B, T, D), positions (B or 1, T) -> x
Rotate = Callable[[Tensor, Tensor], Tensor]  # q or k (B, H, T, d), positions -> the same shape
Bias = Callable[[Tensor, Tensor], Tensor | None]  # query and key positions -> (B or 1, H, T, S)


def unmoved(x: Tensor, positions: Tensor) -> Tensor:
    """Positions that do not act here."""
    return x


def unbiased(query: Tensor, key: Tensor) -> Tensor | None:
    return None


class Positions(Spec, family="positions"):
    """One of these three does something; the other two are empty."""

    def additive(self, width: int, max_length: int) -> Add:
        return unmoved

    def rotation(self, head_width: int) -> Rotate:
        return unmoved

    def bias(self, heads: int, two_way: bool) -> Bias:
        return unbiased


class NoPositions(Positions, kind="no_positions"):
    """A causal decoder can still count; a fully visible encoder sees a bag of tokens."""


class Sinusoidal(Positions, kind="sinusoidal"):
    """Vaswani et al. 2017, arXiv:1706.03762."""

    base: Positive = 10_000.0

    def additive(self, width: int, max_length: int) -> Add:
        return SinusoidalModule(self.base)


class Learned(Positions, kind="learned"):
    """A vector per position, up to the model's max_length (GPT-2, BERT)."""

    def additive(self, width: int, max_length: int) -> Add:
        return LearnedModule(max_length, width)


class Index(Positions, kind="index"):
    """The position's number times one learned vector: what one would try first, and why it does badly."""

    def additive(self, width: int, max_length: int) -> Add:
        return IndexModule(width)


class Rotary(Positions, kind="rotary"):
    """Su et al. 2021, arXiv:2104.09864.

    NOTE[DIFF] feature i is paired with feature i + d/2 (GPT-NeoX, Llama), not with its neighbour i + 1 as in the
    paper: the same function up to a fixed permutation of q and k features.
    """

    base: Positive = 10_000.0
    share: Annotated[float, Strict(), Field(gt=0.0, le=1.0)] = 1.0
    """The share of each head's features that turns."""

    def rotation(self, head_width: int) -> Rotate:
        turning = int(head_width * self.share)
        if turning < 2 or turning % 2:
            raise SpecError(
                f"rotary turns pairs: wanted an even number of features, came {turning} of head width {head_width}; "
                "change heads, width or rotary.share"
            )
        return Rotation(self.base, turning)


class ALiBi(Positions, kind="alibi"):
    """Press et al. 2021, arXiv:2108.12409.

    NOTE[DIFF] the paper is causal; in a fully visible stack both directions are penalised by |t - s|.
    """

    def bias(self, heads: int, two_way: bool) -> Bias:
        return ALiBiBias(heads)


class Relative(Positions, kind="relative"):
    """Raffel et al. 2020 (T5), arXiv:1910.10683: distances in buckets, exact when near, logarithmic when far."""

    buckets: Annotated[int, Strict(), Field(ge=4, multiple_of=4)] = 32
    max_distance: Count = 128

    def bias(self, heads: int, two_way: bool) -> Bias:
        exact = self.buckets // (4 if two_way else 2)
        if self.max_distance <= exact:
            raise SpecError(
                f"relative: wanted max_distance above the {exact} exact buckets, came {self.max_distance}; "
                "raise max_distance or lower buckets"
            )
        return RelativeBias(heads, self.buckets, self.max_distance, two_way)


# -- the modules -----------------------------------------------------------------------------------------


def angles(positions: Tensor, base: float, width: int, dtype: torch.dtype) -> Tensor:
    """(B, T) -> (B, T, width / 2): t * base^(-2i / width), in float32 or better."""
    dtype = torch.promote_types(dtype, torch.float32)
    even = torch.arange(0, width, 2, device=positions.device, dtype=dtype)
    return positions[..., None].to(dtype) * base ** (-even / width)


class SinusoidalModule(Part):
    def __init__(self, base: float) -> None:
        super().__init__()
        self.base = base

    def table(self, positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
        turn = angles(positions, self.base, width, dtype)
        # (B, T, D/2, 2) -> (B, T, D): sine and cosine side by side; an odd width loses its last cosine.
        return torch.stack((turn.sin(), turn.cos()), dim=-1).flatten(-2)[..., :width]

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table(positions, x.shape[-1], x.dtype).to(x.dtype)


class LearnedModule(Part):
    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, width))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.check(positions)
        return x + F.embedding(positions, self.weight)

    def check(self, positions: Tensor) -> None:
        """Padding needs no position: only values tell. On a GPU they are asked only where the shape is suspicious."""
        suspicious = positions.shape[1] > len(self.weight)
        if not torch.compiler.is_compiling() and positions.numel() and (suspicious or positions.device.type == "cpu"):
            longest = int(positions.max()) + 1
            if longest > len(self.weight):
                raise ValueError(
                    f"wanted at most {len(self.weight)} tokens, one per learned position, came {longest}; "
                    "cut the sequence, or build with a larger max_length"
                )

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "position", self.weight


class IndexModule(Part):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, width))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions[..., None].to(x.dtype) * self.weight

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "position", self.weight


class Rotation:
    """Not a module: nothing to learn, nothing to save."""

    def __init__(self, base: float, turning: int) -> None:
        self.base, self.turning = base, turning

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        turn = angles(positions, self.base, self.turning, x.dtype)[:, None]  # (B, 1, T, d/2)
        cos, sin = turn.cos().to(x.dtype), turn.sin().to(x.dtype)
        half = self.turning // 2
        a, b, rest = x[..., :half], x[..., half : self.turning], x[..., self.turning :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1)


class ALiBiBias(Part):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self) -> list[float]:
        """2^(-8/n), 2^(-16/n), ...; for n not a power of two, the lower power's, then every second of the next."""
        power = 2 ** math.floor(math.log2(self.heads))
        slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
        between = [2.0 ** (-4.0 * (i + 1) / power) for i in range(0, 2 * power, 2)]
        return slopes + between[: self.heads - power]

    def forward(self, query: Tensor, key: Tensor) -> Tensor | None:
        distance = (query[:, :, None] - key[:, None, :]).abs()  # (B, T, S)
        slopes = torch.tensor(self.slopes(), device=query.device)
        return -slopes[:, None, None] * distance[:, None]


class RelativeBias(Part):
    def __init__(self, heads: int, buckets: int, max_distance: int, two_way: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.max_distance, self.two_way = max_distance, two_way

    def bucket(self, offset: Tensor) -> Tensor:
        """offset = key - query. Two-way: half the buckets for keys behind, half for keys ahead."""
        buckets = len(self.weight)
        first = torch.zeros_like(offset)
        if self.two_way:
            buckets //= 2
            first = (offset > 0) * buckets
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = buckets // 2
        # log(0) is never chosen by the `where` below, but must not become NaN.
        far = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (far * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, far)

    def forward(self, query: Tensor, key: Tensor) -> Tensor | None:
        offset = key[:, None, :] - query[:, :, None]  # (B, T, S)
        return self.weight[self.bucket(offset)].permute(0, 3, 1, 2)  # (B, H, T, S)

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "position", self.weight
