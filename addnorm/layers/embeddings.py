"""Embedding: tokens -> (B, T, D). Head: (B, T, D) -> logits. Tied where the head reads the embedding's table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.layers.norms import NoNorm, Norm
from addnorm.layers.part import Linear, Part, Role
from addnorm.layers.positions import Positions
from addnorm.spec import Bool, Spec


class Embedding(Spec, family="embedding"):
    @abstractmethod
    def build(
        self, vocab: int, width: int, max_length: int, positions: Positions, dropout: float
    ) -> EmbeddingModule: ...


class TokenEmbedding(Embedding, kind="token_embedding"):
    times_sqrt_width: Bool = True
    """Vaswani's scale: a table born N(0, 1/D) enters the stream with unit variance."""
    types: Annotated[int, Strict(), Field(ge=0)] = 0
    """How many token types (BERT's segments) are embedded beside the tokens."""
    norm: Norm = NoNorm()
    """After tokens, types and positions are added (BERT)."""

    def build(self, vocab: int, width: int, max_length: int, positions: Positions, dropout: float) -> EmbeddingModule:
        return TokenEmbeddingModule(self, vocab, width, max_length, positions, dropout)


class FixNorm(Embedding, kind="fix_norm"):
    """Nguyen & Salazar 2019, arXiv:1910.05895: every word vector has length one, on the way in (times sqrt(D)) and in
    the tied head. The paper's birth is `SmallInit(embedding_bound=0.01)`."""

    def build(self, vocab: int, width: int, max_length: int, positions: Positions, dropout: float) -> EmbeddingModule:
        return FixNormModule(vocab, width, max_length, positions, dropout)


class EmbeddingModule(Part):
    """Abstract. `table` is what a tied head multiplies by."""

    type_count = 0

    def __init__(self, vocab: int, width: int, max_length: int, positions: Positions, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, width))
        self.positions = positions.additive(width, max_length)
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def table(self) -> Tensor: ...

    @abstractmethod
    def forward(self, tokens: Tensor, positions: Tensor, types: Tensor | None = None) -> Tensor: ...

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "embedding", self.weight


class TokenEmbeddingModule(EmbeddingModule):
    def __init__(
        self, spec: TokenEmbedding, vocab: int, width: int, max_length: int, positions: Positions, dropout: float
    ) -> None:
        super().__init__(vocab, width, max_length, positions, dropout)
        self.scale = width**0.5 if spec.times_sqrt_width else 1.0
        self.types = nn.Parameter(torch.empty(spec.types, width)) if spec.types else None
        self.type_count = spec.types
        self.norm = spec.norm.build(width)

    def table(self) -> Tensor:
        return self.weight

    def forward(self, tokens: Tensor, positions: Tensor, types: Tensor | None = None) -> Tensor:
        x = F.embedding(tokens, self.weight) * self.scale
        if self.types is not None:
            x = x + (self.types[0] if types is None else F.embedding(types, self.types))
        elif types is not None:
            raise ValueError("token types were given to a model without them; set embedding.types, or leave them out")
        return self.dropout(self.norm(self.positions(x, positions)))

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "embedding", self.weight
        if self.types is not None:
            yield "embedding", self.types


class FixNormModule(EmbeddingModule):
    def table(self) -> Tensor:
        return F.normalize(self.weight, dim=-1)

    def forward(self, tokens: Tensor, positions: Tensor, types: Tensor | None = None) -> Tensor:
        if types is not None:
            raise ValueError("token types were given to a FixNorm embedding, which has none; leave them out")
        x = F.normalize(F.embedding(tokens, self.weight), dim=-1) * self.weight.shape[1] ** 0.5
        return self.dropout(self.positions(x, positions))


# -- heads -------------------------------------------------------------------------------------------------


class Head(Spec, family="head"):
    @abstractmethod
    def build(self, vocab: int, width: int) -> Callable[[Tensor, EmbeddingModule], Tensor]:
        """A function of (B, T, D) and the embedding, whose table a tied head reads."""


class NoHead(Head, kind="no_head"):
    """The stack's features as they are: (B, T, D)."""

    def build(self, vocab: int, width: int) -> Callable[[Tensor, EmbeddingModule], Tensor]:
        return features


class TiedHead(Head, kind="tied_head"):
    """logits = x E', with the embedding's own table E (Press & Wolf 2017, arXiv:1608.05859)."""

    over_sqrt_width: Bool = False
    """T5: logits / sqrt(D), because its table is born with unit variance."""
    bias: Bool = False

    def build(self, vocab: int, width: int) -> Callable[[Tensor, EmbeddingModule], Tensor]:
        return TiedHeadModule(self, vocab, width)


class LinearHead(Head, kind="linear_head"):
    """logits = W x, a matrix of its own."""

    bias: Bool = False

    def build(self, vocab: int, width: int) -> Callable[[Tensor, EmbeddingModule], Tensor]:
        return LinearHeadModule(vocab, width, self.bias)


def features(x: Tensor, embedding: EmbeddingModule) -> Tensor:
    return x


class TiedHeadModule(Part):
    def __init__(self, spec: TiedHead, vocab: int, width: int) -> None:
        super().__init__()
        self.scale = width**-0.5 if spec.over_sqrt_width else 1.0
        self.bias = nn.Parameter(torch.zeros(vocab)) if spec.bias else None

    def forward(self, x: Tensor, embedding: EmbeddingModule) -> Tensor:
        return F.linear(x * self.scale, embedding.table(), self.bias)

    def constants(self) -> Iterator[tuple[Tensor, float | Tensor]]:
        if self.bias is not None:
            yield self.bias, 0.0


class LinearHeadModule(Part):
    def __init__(self, vocab: int, width: int, bias: bool) -> None:
        super().__init__()
        self.linear = Linear(width, vocab, "head", bias)

    def forward(self, x: Tensor, embedding: EmbeddingModule) -> Tensor:
        return self.linear(x)
