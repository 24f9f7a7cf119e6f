"""ModelSpec and Model: what every model shape shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, Strict
from torch import nn

from addnorm.arrangements import Arrangement, PreLN
from addnorm.arrangements.base import Kind, Side, Site
from addnorm.init import Base, XavierUniform, initialise
from addnorm.layers.attention import Attention
from addnorm.layers.dropout import Dropout
from addnorm.layers.embeddings import Embedding, EmbeddingModule, Head, NoHead, TokenEmbedding
from addnorm.layers.feed_forward import FeedForward
from addnorm.layers.layouts import Layout, OneByOne
from addnorm.layers.masks import Visibility
from addnorm.layers.norms import Norm
from addnorm.layers.positions import Positions, Sinusoidal
from addnorm.layers.sublayer import SublayerSpec
from addnorm.models.stack import Plan
from addnorm.spec import Count, Spec, SpecError


class ModelSpec(Spec, family="model"):
    """A model as a value: sizes, design, contents, positions, birth."""

    @abstractmethod
    def build(self, seed: int = 0) -> Model:
        """A new model, born by that seed."""

    @abstractmethod
    def plans(self) -> dict[Side, Plan]:
        """The stacks of this model."""

    @property
    @abstractmethod
    def base(self) -> Base:
        """How weights are drawn, before the designs' gains."""

    def designs(self) -> dict[Side, Arrangement]:
        return {side: plan.design for side, plan in self.plans().items()}

    def model_post_init(self, context: Any) -> None:
        """Whatever validates, builds: contents are tried on their seats here."""
        for side, plan in self.plans().items():
            for name, content in plan.contents.items():
                check = content.check_cross if name == "cross_attention" else content.check
                check(plan.seat(0))
            reason = plan.design.refuses(self.base)
            if reason:
                raise SpecError(
                    f"init={self.base.kind} was asked for, but design {plan.design.kind} does not suit it: {reason}; "
                    "use xavier_uniform or another design"
                )
            self.check_design(side, plan)

    def check_design(self, side: Side, plan: Plan) -> None:
        """Room for what a model shape must refuse."""


class TextSpec(ModelSpec):
    """Models that read tokens. Defaults: Vaswani's base model over bytes, with Pre-LN."""

    vocab: Annotated[int, Strict(), Field(ge=2)] = 256
    width: Count = 512
    heads: Count = 8
    depth: Count = 6
    max_length: Count = 1024
    """The longest sequence; binding for learned positions alone."""
    arrangement: Arrangement = PreLN()
    attention: SublayerSpec = Attention()
    feed_forward: SublayerSpec = FeedForward()
    layout: Layout = OneByOne()
    positions: Positions = Sinusoidal()
    embedding: Embedding = TokenEmbedding()
    head: Head = NoHead()
    init: Base = XavierUniform()
    dropout: Dropout = Dropout()

    @property
    def base(self) -> Base:
        return self.init

    def check_design(self, side: Side, plan: Plan) -> None:
        plan.positions.bias(plan.heads, two_way=side == "encoder")

    def build_embedding(self, vocab: int) -> EmbeddingModule:
        return self.embedding.build(vocab, self.width, self.max_length, self.positions, self.dropout.embedding)

    def plan(self, side: Side, crossed: bool, design: Arrangement, depth: int, other_depth: int) -> Plan:
        contents = self.layout.contents(self.attention, self.attention if crossed else None, self.feed_forward)
        return Plan(
            side, design, contents, self.width, self.heads, depth, other_depth, self.positions, self.dropout
        )  # fmt: skip


def refuse_mixing_positions(spec: Spec, visibility: Visibility, where: str) -> None:
    """A norm that averages over positions lets a token see the tokens after it."""
    for norm in spec.walk():
        if isinstance(norm, Norm) and not norm.position_wise and visibility.causal:
            raise SpecError(
                f"{where} is causal, but {norm.kind} averages over positions: a token would see the tokens after it, "
                "and cached decoding could not equal the full forward; use layer_norm, rms_norm or scale_norm"
            )


class Model(nn.Module):
    """A spec made flesh. Born when made, unless made on the meta device (then: `to_empty`, `born(seed)`)."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec

    @abstractmethod
    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        """Every part with where it sits, and the design that has a say in its birth."""

    def born(self, seed: int) -> Self:
        """Write every parameter anew from that seed."""
        if any(parameter.is_meta for parameter in self.parameters()):
            raise ValueError(
                "born: wanted a model with memory, came one on the meta device; call to_empty(device=...) first"
            )
        initialise(self, self.spec.base, seed)
        return self

    def born_unless_meta(self, seed: int) -> None:
        """A constructor's last act: on the meta device there is nothing to write yet."""
        if not any(parameter.is_meta for parameter in self.parameters()):
            self.born(seed)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def end_site(plan: Plan, kind: Kind) -> Site:
    """The site of an embedding or a head."""
    return plan.site(kind, 0 if kind == "embedding" else plan.depth)
