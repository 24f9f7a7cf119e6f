"""Encoder: fully visible. Tokens in, features out (or logits, with a head)."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from addnorm.arrangements import Arrangement
from addnorm.arrangements.base import Side, Site
from addnorm.layers.cache import NO_CACHE
from addnorm.layers.context import Context
from addnorm.layers.embeddings import Head, NoHead
from addnorm.layers.masks import FullyVisible
from addnorm.models.inputs import check_mask, check_tokens, check_types, positions_of
from addnorm.models.model import Model, TextSpec, end_site
from addnorm.models.sight import Sight
from addnorm.models.stack import Plan, Stack


class EncoderSpec(TextSpec, kind="encoder"):
    head: Head = NoHead()

    def plans(self) -> dict[Side, Plan]:
        return {"encoder": self.plan("encoder", False, self.arrangement, self.depth, 0)}

    def build(self, seed: int = 0) -> Encoder:
        return Encoder(self, seed)


class Encoder(Model):
    spec: EncoderSpec

    def __init__(self, spec: EncoderSpec, seed: int = 0) -> None:
        super().__init__(spec)
        plan = spec.plans()["encoder"]
        self.embedding = spec.build_embedding(spec.vocab)
        self.sight = Sight(plan, FullyVisible())
        self.stack = Stack(plan)
        self.head = spec.head.build(spec.vocab, spec.width)
        self.born_unless_meta(seed)

    def forward(self, tokens: Tensor, padding: Tensor | None = None, *, types: Tensor | None = None) -> Tensor:
        """tokens (B, T); padding (B, T) bool, True = real; types (B, T) token types -> (B, T, D), or logits."""
        tokens = check_tokens(tokens, self.spec.vocab)
        real = check_mask(padding, tokens)
        types = check_types(types, tokens, self.embedding.type_count)
        positions = positions_of(tokens, real)
        context = Context(positions, self.sight(positions, real, None, None), cache=NO_CACHE)
        x = self.stack(self.embedding(tokens, positions, types), context)
        return self.head(x, self.embedding)

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        yield from ends(self.stack.plan, self.embedding, self.sight, self.head)
        yield from self.stack.sites()


def ends(
    plan: Plan, embedding: nn.Module, sight: nn.Module, head: object
) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
    """What surrounds a stack of tokens."""
    yield plan.design, end_site(plan, "embedding"), embedding
    yield plan.design, end_site(plan, "embedding"), sight
    if isinstance(head, nn.Module):
        yield plan.design, end_site(plan, "head"), head
