"""FT-Transformer: every column a token (Gorishniy et al. 2021, arXiv:2106.11959).

    token_j = b_j + x_j w_j           numeric column j
    token_j = b_j + E_j[x_j]          categorical column j
    y = W relu(norm(stack([CLS, token_1, ...])[CLS])) + b

Pre-LN *with the very first norm left out*: `PreLN(first_norm=NoNorm())`, which the authors call crucial.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.arrangements import Arrangement, PreLN
from addnorm.arrangements.base import Side, Site
from addnorm.init import Base, Kaiming
from addnorm.layers.attention import Attention
from addnorm.layers.cache import NO_CACHE
from addnorm.layers.context import Context
from addnorm.layers.dropout import Dropout
from addnorm.layers.feed_forward import GatedFeedForward
from addnorm.layers.masks import FullyVisible
from addnorm.layers.norms import NoNorm
from addnorm.layers.part import Linear, Part, Role
from addnorm.layers.positions import NoPositions
from addnorm.layers.sublayer import SublayerSpec
from addnorm.models.inputs import check_columns, rows_of_one_table
from addnorm.models.model import Model, ModelSpec, end_site
from addnorm.models.sight import Sight
from addnorm.models.stack import Plan, Stack
from addnorm.spec import Count, SpecError


class FTTransformerSpec(ModelSpec, kind="ft_transformer"):
    """Defaults: the published default configuration."""

    numeric: Annotated[int, Strict(), Field(ge=0)] = 8
    """How many numeric columns."""
    categories: tuple[Count, ...] = ()
    """How many categories each categorical column has."""
    outputs: Count | None = 1
    """None: the [CLS] features as they are."""
    width: Count = 192
    heads: Count = 8
    depth: Count = 3
    arrangement: Arrangement = PreLN(first_norm=NoNorm())
    attention: SublayerSpec = Attention()
    feed_forward: SublayerSpec = GatedFeedForward(activation="relu", ratio=4.0 / 3.0, bias=True)
    init: Base = Kaiming()
    dropout: Dropout = Dropout(attention=0.2, hidden=0.1)

    @property
    def base(self) -> Base:
        return self.init

    def plans(self) -> dict[Side, Plan]:
        contents = {"self_attention": self.attention, "feed_forward": self.feed_forward}
        plan = Plan(
            "encoder", self.arrangement, contents, self.width, self.heads, self.depth, 0, NoPositions(), self.dropout
        )
        return {"encoder": plan}

    def check_design(self, side: Side, plan: Plan) -> None:
        if self.numeric == 0 and not self.categories:
            raise SpecError("ft_transformer: wanted at least one column, came none; set numeric or categories")

    def build(self, seed: int = 0) -> FTTransformer:
        return FTTransformer(self, seed)


class FTTransformer(Model):
    spec: FTTransformerSpec

    def __init__(self, spec: FTTransformerSpec, seed: int = 0) -> None:
        super().__init__(spec)
        plan = spec.plans()["encoder"]
        self.tokenizer = FeatureTokenizer(spec.numeric, spec.categories, spec.width)
        self.embedding_dropout = nn.Dropout(spec.dropout.embedding)
        self.sight = Sight(plan, FullyVisible())
        self.stack = Stack(plan)
        self.head = None if spec.outputs is None else Linear(spec.width, spec.outputs, "head")
        self.born_unless_meta(seed)

    def forward(self, numeric: Tensor | None = None, categories: Tensor | None = None) -> Tensor:
        """numeric (B, n) floats, categories (B, m) integers -> (B, outputs), or (B, D) without a head."""
        check_columns(numeric, categories, self.spec.numeric, self.spec.categories)
        x = self.embedding_dropout(self.tokenizer(numeric, categories))  # (B, 1 + n + m, D)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        context = Context(positions, self.sight(positions, None, None, None), cache=NO_CACHE)
        features = self.stack(x, context)[:, 0]
        return features if self.head is None else self.head(F.relu(features))

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        plan = self.stack.plan
        yield plan.design, end_site(plan, "embedding"), self.tokenizer
        yield from self.stack.sites()
        if self.head is not None:
            yield plan.design, end_site(plan, "head"), self.head


class FeatureTokenizer(Part):
    """[CLS], then a token per column: (B, n) and (B, m) -> (B, 1 + n + m, D)."""

    def __init__(self, numeric: int, categories: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.empty(1, width))
        self.slope = nn.Parameter(torch.empty(numeric, width)) if numeric else None
        self.table = nn.Parameter(torch.empty(sum(categories), width)) if categories else None
        self.bias = nn.Parameter(torch.empty(numeric + len(categories), width))
        self.numeric, self.categories = numeric, categories

    def forward(self, numeric: Tensor | None, categories: Tensor | None) -> Tensor:
        tokens = []
        if numeric is not None and self.slope is not None:
            tokens.append(numeric[..., None] * self.slope)
        if categories is not None and self.table is not None:
            tokens.append(F.embedding(rows_of_one_table(categories, self.categories), self.table))
        columns = torch.cat(tokens, dim=1) + self.bias
        return torch.cat((self.cls.expand(len(columns), 1, -1).to(columns.dtype), columns), dim=1)

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        for tensor in (self.cls, self.slope, self.table, self.bias):
            if tensor is not None:
                yield "embedding", tensor
