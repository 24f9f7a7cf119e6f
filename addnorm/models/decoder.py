"""Decoder: causal, without an encoder. Tokens in, logits of the next token out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from addnorm.arrangements import Arrangement
from addnorm.arrangements.base import Side, Site
from addnorm.layers.cache import NO_CACHE, Cache
from addnorm.layers.context import Context
from addnorm.layers.embeddings import Head, TiedHead
from addnorm.layers.masks import Causal, PrefixCausal, Visibility
from addnorm.layers.part import in_mode
from addnorm.layers.positions import Learned
from addnorm.models.encoder import ends
from addnorm.models.generate import Generated, Search, begin, check_search, repeat
from addnorm.models.inputs import check_mask, check_tokens, check_types, positions_of
from addnorm.models.model import Model, TextSpec, refuse_mixing_positions
from addnorm.models.sight import Sight
from addnorm.models.stack import Plan, Stack
from addnorm.spec import SpecError


class DecoderSpec(TextSpec, kind="decoder"):
    head: Head = TiedHead()
    visibility: Visibility = Causal()

    def plans(self) -> dict[Side, Plan]:
        return {"decoder": self.plan("decoder", False, self.arrangement, self.depth, 0)}

    def check_design(self, side: Side, plan: Plan) -> None:
        super().check_design(side, plan)
        if not self.visibility.causal:
            raise SpecError(
                f"decoder: wanted a causal visibility, came {self.visibility.kind}; use causal or prefix_causal, or an "
                "encoder"
            )
        refuse_mixing_positions(self, self.visibility, "a decoder")

    def build(self, seed: int = 0) -> Decoder:
        return Decoder(self, seed)


class Decoder(Model):
    spec: DecoderSpec

    def __init__(self, spec: DecoderSpec, seed: int = 0) -> None:
        super().__init__(spec)
        plan = spec.plans()["decoder"]
        self.embedding = spec.build_embedding(spec.vocab)
        self.sight = Sight(plan, spec.visibility)
        self.stack = Stack(plan)
        self.head = spec.head.build(spec.vocab, spec.width)
        self.born_unless_meta(seed)

    def forward(
        self,
        tokens: Tensor,
        padding: Tensor | None = None,
        *,
        prefix: Tensor | None = None,
        types: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """tokens (B, T); padding (B, T) bool, True = real; prefix (B,) lengths -> logits (B, T, vocab).

        With a cache, `tokens` go on where the cache stands.
        """
        tokens = check_tokens(tokens, self.spec.vocab)
        real = check_mask(padding, tokens)
        types = check_types(types, tokens, self.embedding.type_count)
        prefix = self._check_prefix(prefix, tokens)
        positions = read_on(tokens, real, cache)
        masks = self.sight(positions, real, prefix, cache)
        context = Context(positions, masks, cache=NO_CACHE if cache is None else cache)
        x = self.stack(self.embedding(tokens, positions, types), context)
        return self.head(x, self.embedding)

    def _check_prefix(self, prefix: Tensor | None, tokens: Tensor) -> Tensor | None:
        wanted = isinstance(self.spec.visibility, PrefixCausal)
        if wanted and prefix is None:
            raise ValueError("prefix: this model is prefix_causal, and wants prefix=(batch,) lengths, came none")
        if prefix is not None and not wanted:
            raise ValueError(f"prefix: came lengths, but this model is {self.spec.visibility.kind}; leave them out")
        if prefix is not None and (prefix.shape != tokens.shape[:1] or prefix.dtype not in (torch.int64, torch.int32)):
            raise ValueError(
                f"prefix: wanted {tokens.shape[0]} integer lengths, came {prefix.dtype} of shape {tuple(prefix.shape)}"
            )
        return prefix

    def generate(
        self,
        prompts: Tensor | Sequence[Sequence[int] | Tensor],
        padding: Tensor | None = None,
        *,
        max_new: int = 64,
        search: Search | str | None = None,
        eos: int | None = None,
        pad: int = 0,
    ) -> Generated:
        """Continue prompts: a list of token lists of any lengths, or (B, T) with a padding mask (True = real)."""
        search = check_search(search, self.spec, eos, pad)
        start = begin(prompts, padding, max_new, eos, pad, self.embedding.weight.device)
        lengths = start.real.sum(dim=1)
        if bool((lengths == 0).any()):
            raise ValueError("generate: wanted a token in every prompt, came an empty one; begin with a BOS token")
        check_length(self.spec, int(lengths.max()) + max_new - 1)
        start = repeat(start, search.beams)
        prefix = start.real.sum(dim=1) if isinstance(self.spec.visibility, PrefixCausal) else None
        cache = Cache(len(start.tokens), start.tokens.shape[1] + max_new, start.tokens.device)

        def read(tokens: Tensor, real: Tensor, cache: Cache) -> Tensor:
            return self(tokens, real, prefix=prefix, cache=cache)

        with torch.no_grad(), in_mode(self, training=False):
            return search.run(read, start, cache)

    def sites(self) -> Iterator[tuple[Arrangement, Site, nn.Module]]:
        yield from ends(self.stack.plan, self.embedding, self.sight, self.head)
        yield from self.stack.sites()


def check_length(spec: TextSpec, wanted: int) -> None:
    if isinstance(spec.positions, Learned) and wanted > spec.max_length:
        raise ValueError(
            f"generate: prompt and answer need {wanted} positions, but this model has learned {spec.max_length}; "
            "lower max_new or shorten the prompt"
        )


def read_on(tokens: Tensor, real: Tensor | None, cache: Cache | None) -> Tensor:
    """The tokens' positions; with a cache, going on where it stands, and told to it."""
    if cache is None:
        return positions_of(tokens, real)
    real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
    positions = positions_of(tokens, real, cache.real.sum(dim=1, keepdim=True))
    cache.advance(positions, real)
    return positions
