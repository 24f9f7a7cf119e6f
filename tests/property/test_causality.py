"""Whatever a decoder is made of: no token sees the ones after it, and reading in pieces is reading the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import Tensor

from addnorm.layers.cache import Cache
from addnorm.models import EncoderDecoder, ModelSpec
from addnorm.spec import SpecError
from tests.property.specs import models
from tests.property.test_models import LONG, SHORT

TOKENS = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1]])
SOURCE = torch.tensor([[1, 0, 1], [0, 0, 1]])
PREFIX = torch.tensor([0, 2])


class Reader:
    """A decoder, or the decoder of a pair, as one function of target tokens."""

    def __init__(self, model: Any) -> None:
        self.model = model.double().eval()
        if isinstance(model, EncoderDecoder):
            self.memory = model.encode(SOURCE[:, : model.spec.max_length])

    def __call__(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        if isinstance(self.model, EncoderDecoder):
            return self.model.decode(tokens, self.memory, cache=cache)
        prefix = PREFIX if self.model.spec.visibility.kind == "prefix_causal" else None
        return self.model(tokens, prefix=prefix, cache=cache)


def assert_near(came: Tensor, wanted: Tensor, what: str) -> None:
    """Rounding apart. Without norms numbers grow large, and so does their rounding."""
    apart = (came - wanted).abs().max() / wanted.abs().max().clamp(min=1.0)
    assert apart < 1e-6, f"{what}: {apart:.3g} apart"


@torch.no_grad()
def check(data: dict[str, Any]) -> None:
    try:
        spec = ModelSpec.from_dict(data | {"max_length": max(4, data.get("max_length", 4))})
    except SpecError:
        reject()
    read, cache = Reader(spec.build()), Cache(2, 4)
    whole = read(TOKENS)
    changed = torch.cat((TOKENS[:, :3], 1 - TOKENS[:, 3:]), dim=1)
    assert_near(read(changed)[:, :3], whole[:, :3], "with another last token")
    pieces = [read(TOKENS[:, a:b], cache) for a, b in ((0, 2), (2, 3), (3, 4))]
    assert_near(torch.cat(pieces, dim=1), whole, "in pieces")


every_kind = pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])


@every_kind
@given(st.data())
@settings(SHORT, max_examples=15)
def test_decoders(kind, data):
    check(data.draw(models(kind)))


@pytest.mark.slow
@every_kind
@given(st.data())
@settings(LONG, max_examples=300)
def test_hundreds_of_decoders(kind, data):
    check(data.draw(models(kind)))
