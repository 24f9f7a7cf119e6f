"""TabTransformer: a Transformer over the categorical columns, a perceptron over all.

token_j = [c_j ; E_j[x_j]]                                    c_j marks the column
y = MLP([stack(tokens) flattened ; norm(numeric)])            hidden widths 4 l and 2 l, l its input width
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm.arrangements import Arrangement, PostLN
from addnorm.arrangements.base import Side, Site
from addnorm.init import Base, Kaiming
from addnorm.layers.attention import Attention
from addnorm.layers.cache import NO_CACHE
from addnorm.layers.context import Context
from addnorm.layers.dropout import Dropout
from addnorm.layers.feed_forward import FeedForward
from addnorm.layers.masks import FullyVisible
from addnorm.layers.norms import LayerNorm
from addnorm.layers.part import Linear, Part, Role
from addnorm.layers.positions import NoPositions
from addnorm.layers.sublayer import SublayerSpec
from addnorm.models.inputs import check_columns, rows_of_one_table
from addnorm.models.model import Model, ModelSpec, end_site
from addnorm.models.sight import Sight
from addnorm.models.stack import Plan, Stack
from addnorm.spec import Count, SpecError


class TabTransformerSpec(ModelSpec, kind="tab_transformer"):
    """Huang et al. 2020, arXiv:2012.06678.

    NOTE[DIFF] the paper does not name its activations: GELU in the stack, ReLU in the perceptron here.
    """

    numeric: Annotated[int, Strict(), Field(ge=0)] = 0
    categories: tuple[Count, ...] = (2,)
    outputs: Count = 1
    width: Count = 32
    heads: Count = 8
    depth: Count = 6
    column_share: Annotated[float, Strict(), Field(ge=0.0, lt=1.0)] = 0.125
    """The share of a token that marks its column."""
    mlp_ratios: tuple[Count, ...] = (4, 2)
    """Hidden widths of the perceptron, as multiples of its input width."""
    arrangement: Arrangement = PostLN()
    attention: SublayerSpec = Attention()
    feed_forward: SublayerSpec = FeedForward(activation="gelu")
    init: Base = Kaiming()
    dropout: Dropout = Dropout()

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
        if not self.categories:
            raise SpecError(
                "tab_transformer: its Transformer reads categorical columns, came none; set categories, or use "
                "ft_transformer, which reads numbers too"
            )

    def build(self, seed: int = 0) -> TabTransformer:
        return TabTransformer(self, seed)


class TabTransformer(Model):
    spec: TabTransformerSpec

    def __init__(self, spec: TabTransformerSpec, seed: int = 0) -> None:
        super().__init__(spec)
        plan = spec.plans()["encoder"]
        self.tokenizer = CategoryTokenizer(spec.categories, spec.width, int(spec.width * spec.column_share))
        self.embedding_dropout = nn.Dropout(spec.dropout.embedding)
        self.sight = Sight(plan, FullyVisible())
        self.stack = Stack(plan)
        self.numeric_norm = LayerNorm().build(spec.numeric) if spec.numeric else None
        fan_in = spec.width * len(spec.categories) + spec.numeric
        widths = [fan_in, *(ratio * fan_in for ratio in spec.mlp_ratios)]
        self.hidden = nn.ModuleList(Linear(a, b, "up") for a, b in pairwise(widths))
        self.head = Linear(widths[-1], spec.outputs, "head")
        self.born_unless_meta(seed)

    def forward(self, numeric: Tensor | None = None, categories: Tensor | None = None) -> Tensor:
        """numeric (B, n) floats, categories (B, m) integers -> (B, outputs)."""
        check_columns(numeric, categories, self.spec.numeric, self.spec.categories)
        x = self.embedding_dropout(self.tokenizer(categories))  # (B, m, D)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        context = Context(positions, self.sight(positions, None, None, None), cache=NO_CACHE)
        features = self.stack(x, context).flatten(1)  # (B, m, D) -> (B, m*D)
        if numeric is not None and self.numeric_norm is not None:
            features = torch.cat((features, self.numeric_norm(numeric)), dim=1)
        for layer in self.hidden:
            features = F.relu(layer(features))
        return self.head(features)

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        plan = self.stack.plan
        yield plan.design, end_site(plan, "embedding"), self.tokenizer
        yield from self.stack.sites()
        for module in (self.numeric_norm, self.hidden, self.head):
            if isinstance(module, nn.Module):
                yield plan.design, end_site(plan, "head"), module


class CategoryTokenizer(Part):
    """(B, m) -> (B, m, D): the first features mark the column, the others the category."""

    def __init__(self, categories: tuple[int, ...], width: int, column_width: int) -> None:
        super().__init__()
        self.column = nn.Parameter(torch.empty(len(categories), column_width)) if column_width else None
        self.table = nn.Parameter(torch.empty(sum(categories), width - column_width))
        self.categories = categories

    def forward(self, categories: Tensor) -> Tensor:
        tokens = F.embedding(rows_of_one_table(categories, self.categories), self.table)
        if self.column is None:
            return tokens
        return torch.cat((self.column.expand(len(tokens), -1, -1), tokens), dim=-1)

    def weights(self) -> Iterator[tuple[Role, Tensor]]:
        yield "embedding", self.table
        if self.column is not None:
            yield "embedding", self.column
