"""Encoder-decoder: a source read whole, a target written from left to right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from pydantic import Field, Strict
from torch import Tensor, nn

from addnorm.arrangements import Arrangement
from addnorm.arrangements.base import Side, Site
from addnorm.layers.cache import NO_CACHE, Cache
from addnorm.layers.context import Context
from addnorm.layers.embeddings import Head, TiedHead
from addnorm.layers.masks import Causal, FullyVisible, memory_mask
from addnorm.layers.part import in_mode
from addnorm.models.decoder import check_length, read_on
from addnorm.models.encoder import ends
from addnorm.models.generate import Generated, Search, begin, check_search, repeat
from addnorm.models.inputs import check_mask, check_rows, check_tokens, positions_of
from addnorm.models.model import Model, TextSpec, end_site, refuse_mixing_positions
from addnorm.models.sight import Sight
from addnorm.models.stack import Plan, Stack
from addnorm.spec import Count, SpecError


class EncoderDecoderSpec(TextSpec, kind="encoder_decoder"):
    head: Head = TiedHead()
    decoder_depth: Count | None = None
    """None: as deep as the encoder."""
    decoder_arrangement: Arrangement | None = None
    """None: the encoder's design."""
    source_vocab: Annotated[int, Strict(), Field(ge=2)] | None = None
    """A vocabulary, and an embedding, of the source's own; None: one table for both sides."""

    def plans(self) -> dict[Side, Plan]:
        depth, other = self.depth, self.decoder_depth or self.depth
        return {
            "encoder": self.plan("encoder", False, self.arrangement, depth, other),
            "decoder": self.plan("decoder", True, self.decoder_arrangement or self.arrangement, other, depth),
        }

    def check_design(self, side: Side, plan: Plan) -> None:
        super().check_design(side, plan)
        if side == "encoder":
            return
        for spec in (plan.design, self.embedding, *plan.contents.values()):
            refuse_mixing_positions(spec, Causal(), "the decoder")
        self._check_shared_embedding()

    def _check_shared_embedding(self) -> None:
        plans = self.plans()
        gains = {
            side: plan.design.gain(end_site(plan, "embedding"), "embedding") for side, plan in plans.items()
        }  # fmt: skip
        if self.source_vocab is None and gains["encoder"] != gains["decoder"]:
            raise SpecError(
                f"encoder_decoder: one embedding table for both sides, but the encoder's design wants it born times "
                f"{gains['encoder']:.4g} and the decoder's times {gains['decoder']:.4g}; make depths and designs agree "
                "or give the source a table of its own with source_vocab"
            )

    def build(self, seed: int = 0) -> EncoderDecoder:
        return EncoderDecoder(self, seed)


class EncoderDecoder(Model):
    spec: EncoderDecoderSpec

    def __init__(self, spec: EncoderDecoderSpec, seed: int = 0) -> None:
        super().__init__(spec)
        plans = spec.plans()
        self.embedding = spec.build_embedding(spec.vocab)
        # None: the source is embedded by the one table there is, and a state dict holds it once.
        self.source_embedding = None if spec.source_vocab is None else spec.build_embedding(spec.source_vocab)
        self.encoder_sight, self.encoder = Sight(plans["encoder"], FullyVisible()), Stack(plans["encoder"])
        self.decoder_sight, self.decoder = Sight(plans["decoder"], Causal()), Stack(plans["decoder"])
        self.head = spec.head.build(spec.vocab, spec.width)
        self.born_unless_meta(seed)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T), paddings bool, True = real -> logits (B, T, vocab). Teacher forcing."""
        check_rows(source, target)
        memory = self.encode(source, source_padding)
        return self.decode(target, memory, source_padding, target_padding)

    def encode(self, source: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, S) -> memory (B, S, D)."""
        source = check_tokens(source, self.spec.source_vocab or self.spec.vocab, "source")
        real = check_mask(padding, source, "source_padding")
        positions = positions_of(source, real)
        context = Context(positions, self.encoder_sight(positions, real, None, None), cache=NO_CACHE)
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        return self.encoder(embedding(source, positions), context)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        *,
        cache: Cache | None = None,
    ) -> Tensor:
        """(B, T) and memory (B, S, D) -> logits (B, T, vocab). With a cache, goes on where it stands."""
        target = check_tokens(target, self.spec.vocab, "target")
        real = check_mask(target_padding, target, "target_padding")
        if memory.ndim != 3 or memory.shape[::2] != (len(target), self.spec.width):
            raise ValueError(
                f"memory: wanted ({target.shape[0]}, source length, {self.spec.width}), came {tuple(memory.shape)}"
            )
        positions = read_on(target, real, cache)
        masks = self.decoder_sight(positions, real, None, cache)
        seen = memory_mask(check_mask(source_padding, memory[:, :, 0], "source_padding"))
        context = Context(positions, masks, memory, seen, NO_CACHE if cache is None else cache)
        x = self.decoder(self.embedding(target, positions), context)
        return self.head(x, self.embedding)

    def generate(
        self,
        source: Tensor,
        source_padding: Tensor | None = None,
        *,
        bos: int,
        max_new: int = 64,
        search: Search | str | None = None,
        eos: int | None = None,
        pad: int = 0,
    ) -> Generated:
        """Write a target for each source (B, S), going on from the token `bos`, which is not part of the answer."""
        search = check_search(search, self.spec, eos, pad)
        check_length(self.spec, max_new)
        with torch.no_grad(), in_mode(self, training=False):
            memory = self.encode(source, source_padding).repeat_interleave(search.beams, dim=0)
            seen = None if source_padding is None else source_padding.repeat_interleave(search.beams, dim=0)
            begins = torch.full((len(source), 1), bos, device=memory.device)
            start = repeat(begin(begins, None, max_new, eos, pad, memory.device), search.beams)
            cache = Cache(len(start.tokens), 1 + max_new, memory.device)

            def read(tokens: Tensor, real: Tensor, cache: Cache) -> Tensor:
                return self.decode(tokens, memory, seen, real, cache=cache)

            return search.run(read, start, cache)

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        encoder, decoder = self.encoder.plan, self.decoder.plan
        source = self.embedding if self.source_embedding is None else self.source_embedding
        yield from ends(decoder, self.embedding, self.decoder_sight, self.head)
        yield from ends(encoder, source, self.encoder_sight, None)
        yield from self.encoder.sites()
        yield from self.decoder.sites()
