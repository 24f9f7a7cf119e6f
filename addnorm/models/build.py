"""The one-line door: a design or a bundle by name, a mode, and sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

import torch

from addnorm.arrangements import CATALOGUE, Arrangement
from addnorm.init import Base
from addnorm.layers.dropout import Dropout
from addnorm.layers.embeddings import Embedding, Head
from addnorm.layers.feed_forward import FEED_FORWARDS
from addnorm.layers.norms import NoNorm, Norm
from addnorm.layers.positions import Positions
from addnorm.layers.sublayer import SublayerSpec
from addnorm.models.bundles import BUNDLES
from addnorm.models.decoder import DecoderSpec
from addnorm.models.encoder import EncoderSpec
from addnorm.models.encoder_decoder import EncoderDecoderSpec
from addnorm.models.ft_transformer import FTTransformerSpec
from addnorm.models.model import ModelSpec, TextSpec
from addnorm.models.tab_transformer import TabTransformerSpec
from addnorm.spec import SpecError, nearest

Mode = Literal["encoder", "decoder", "encoder_decoder"]
Shape = Literal["encoder", "decoder", "encoder_decoder", "ft_transformer", "tab_transformer"]
MODES: dict[str, type[TextSpec]] = {
    "encoder": EncoderSpec,
    "decoder": DecoderSpec,
    "encoder_decoder": EncoderDecoderSpec,
}


SHAPES: dict[str, Callable[..., ModelSpec]] = {
    **MODES,
    "ft_transformer": FTTransformerSpec,
    "tab_transformer": TabTransformerSpec,
}
"""Every model shape that a design can be built in."""

ASKED_AS = {"decoder_arrangement": "decoder_design"}
"""Fields that this door calls by another name."""


def design(name: str | Arrangement) -> Arrangement:
    """A design by its catalogue name, or as it is."""
    if isinstance(name, Arrangement):
        return name
    if not isinstance(name, str):
        made = f"make it: {name.__name__}()" if isinstance(name, type) else "give a name or an Arrangement"
        raise SpecError(f"wanted a design by name or as an object, came {name!r}; {made}")
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise SpecError(f"unknown design {name!r}: {nearest(name, CATALOGUE)}")


def with_norm(arrangement: Arrangement, norm: Norm) -> Arrangement:
    """The same design with another norm in every place where it has one."""
    changed = _renormed(arrangement, norm)
    if changed is None:
        raise SpecError(
            f"norm={norm.kind} was asked for, but {arrangement.kind} has no norm to replace; drop one of them"
        )
    return changed


def _renormed(arrangement: Arrangement, norm: Norm) -> Arrangement | None:
    changes: dict[str, Any] = {}
    for name in type(arrangement).model_fields:
        value = getattr(arrangement, name)
        if isinstance(value, Norm) and not isinstance(value, NoNorm):
            changes[name] = norm
        elif isinstance(value, Arrangement) and (inner := _renormed(value, norm)) is not None:
            changes[name] = inner
    return arrangement.replace(changes) if changes else None


def make_spec(
    name: str | Arrangement | ModelSpec = "pre_ln",
    *,
    mode: Shape | None = None,
    vocab: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    depth: int | None = None,
    hidden: int | None = None,
    max_length: int | None = None,
    decoder_depth: int | None = None,
    decoder_design: str | Arrangement | None = None,
    norm: str | Norm | None = None,
    positions: str | Positions | None = None,
    attention: SublayerSpec | None = None,
    feed_forward: str | SublayerSpec | None = None,
    embedding: str | Embedding | None = None,
    head: str | Head | None = None,
    init: str | Base | None = None,
    dropout: float | Dropout | None = None,
    numeric: int | None = None,
    categories: tuple[int, ...] | None = None,
    outputs: int | None = None,
) -> ModelSpec:
    """The ModelSpec that `build` builds: a design or bundle by name, everything else by choice."""
    spec = _start(name, mode)
    changes: dict[str, Any] = {
        "vocab": vocab,
        "width": width,
        "heads": heads,
        "depth": depth,
        "max_length": max_length,
        "decoder_depth": decoder_depth,
        "decoder_arrangement": None if decoder_design is None else design(decoder_design),
        "positions": positions,
        "attention": attention,
        "feed_forward": _feed_forward(feed_forward),
        "embedding": embedding,
        "head": head,
        "init": init,
        "numeric": numeric,
        "categories": categories,
        "outputs": outputs,
        "dropout": Dropout.everywhere(dropout) if isinstance(dropout, float | int) else dropout,
    }
    changes = {field: value for field, value in changes.items() if value is not None}
    if hidden is not None:
        content = changes.get("feed_forward", getattr(spec, "feed_forward", None))
        if content is None or "hidden" not in type(content).model_fields:
            raise SpecError(f"hidden={hidden} was asked for, but this model's feed-forward has no such field")
        changes["feed_forward"] = content.replace({"hidden": hidden})
    if norm is not None:
        changes |= _with_norm_everywhere(spec, changes, Norm.parse(norm))
    strange = [ASKED_AS.get(field, field) for field in changes if field not in type(spec).model_fields]
    if strange:
        raise SpecError(f"{', '.join(strange)}: a model of kind {spec.kind} has no such field; leave it out")
    made = spec.replace(changes)
    _check_feed_forward_is_used(made, "hidden" if hidden is not None else "feed_forward" if feed_forward else None)
    return made


def build(
    name: str | Arrangement | ModelSpec = "pre_ln",
    *,
    mode: Shape | None = None,
    vocab: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    depth: int | None = None,
    hidden: int | None = None,
    max_length: int | None = None,
    decoder_depth: int | None = None,
    decoder_design: str | Arrangement | None = None,
    norm: str | Norm | None = None,
    positions: str | Positions | None = None,
    attention: SublayerSpec | None = None,
    feed_forward: str | SublayerSpec | None = None,
    embedding: str | Embedding | None = None,
    head: str | Head | None = None,
    init: str | Base | None = None,
    dropout: float | Dropout | None = None,
    numeric: int | None = None,
    categories: tuple[int, ...] | None = None,
    outputs: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """A model, born: `build("b2t", mode="encoder_decoder", depth=6, width=512)`, `build("gpt2", depth=2)`.

    name    a design of CATALOGUE, a bundle of BUNDLES, or a Spec of your own
    mode    encoder, decoder (the default for designs), encoder_decoder, or a model of tables, ft_transformer or
            tab_transformer (with numeric, categories and outputs); a bundle has its own
    seed    one seed gives the same sub-layer weights in every design, on every device, in every dtype
    """
    spec = make_spec(
        name,
        mode=mode,
        vocab=vocab,
        width=width,
        heads=heads,
        depth=depth,
        hidden=hidden,
        max_length=max_length,
        decoder_depth=decoder_depth,
        decoder_design=decoder_design,
        norm=norm,
        positions=positions,
        attention=attention,
        feed_forward=feed_forward,
        embedding=embedding,
        head=head,
        init=init,
        dropout=dropout,
        numeric=numeric,
        categories=categories,
        outputs=outputs,
    )
    # Made where it will live: on the meta device nothing is allocated, on a GPU nothing twice.
    with nullcontext() if device is None else torch.device(device):
        model = spec.build(seed)
    return model.to(dtype=dtype)


def _start(name: str | Arrangement | ModelSpec, mode: str | None) -> ModelSpec:
    if mode is not None and mode not in SHAPES:
        raise SpecError(f"unknown mode {mode!r}: {nearest(mode, SHAPES)}")
    bundle = BUNDLES.get(name) if isinstance(name, str) else name if isinstance(name, ModelSpec) else None
    if bundle is not None:
        if mode is not None and bundle.kind != mode:
            raise SpecError(f"mode={mode} was asked for, but {name} is a model of kind {bundle.kind}; drop mode")
        return bundle
    if isinstance(name, str) and name not in CATALOGUE:
        raise SpecError(f"unknown design or bundle {name!r}: {nearest(name, [*CATALOGUE, *BUNDLES])}")
    assert not isinstance(name, ModelSpec)
    return SHAPES[mode or "decoder"](arrangement=design(name))


def _check_feed_forward_is_used(spec: ModelSpec, asked: str | None) -> None:
    if asked is not None and isinstance(spec, TextSpec):
        contents = spec.layout.contents(spec.attention, None, spec.feed_forward)
        if list(contents) == ["self_attention"]:
            raise SpecError(
                f"{asked} was asked for, but layout {spec.layout.kind} has no feed-forward; drop one of them"
            )


def _feed_forward(value: str | SublayerSpec | None) -> SublayerSpec | None:
    if not isinstance(value, str):
        return value
    if value not in FEED_FORWARDS:
        raise SpecError(f"unknown feed_forward {value!r}: {nearest(value, FEED_FORWARDS)}")
    return FEED_FORWARDS[value]


def _with_norm_everywhere(spec: ModelSpec, changes: dict[str, Any], norm: Norm) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for field in ("arrangement", "decoder_arrangement"):
        value = changes.get(field, getattr(spec, field, None))
        if value is not None:
            changed[field] = with_norm(value, norm)
    return changed
