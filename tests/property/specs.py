"""Random Specs as plain data, made from the fields that every registered class declares: a new design is drawn too."""

from __future__ import annotations

import types
import typing
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from addnorm.layers.attention import Attention
from addnorm.models import ModelSpec
from addnorm.spec import Spec

Data = st.SearchStrategy[Any]

FLOATS = (-2.0, -0.5, 0.0, 1e-5, 0.1, 0.3, 0.5, 0.9, 1.0, 2.0, 4.0)
SIZES: dict[str, Data] = {
    "vocab": st.integers(2, 7),
    "source_vocab": st.none() | st.integers(2, 7),
    "depth": st.integers(1, 3),
    "decoder_depth": st.none() | st.integers(1, 3),
    "max_length": st.integers(1, 5),
    "max_distance": st.integers(1, 40),
    "numeric": st.integers(0, 3),
}
"""Where the field's own limits say too little about what can be built in a moment."""


def members(family: type[Spec], nesting: int) -> Data:
    """Any registered member of that family, as data."""
    classes = sorted(family.registry.values(), key=lambda member: member.kind)
    classes = [member for member in classes if issubclass(member, family) and is_ours(member)]
    if nesting == 0:
        classes = [member for member in classes if not holds(member, family)]
    return st.sampled_from(classes).flatmap(lambda member: mapping(member, nesting))


def is_ours(member: type[Spec]) -> bool:
    """Other tests may have defined members of their own."""
    return member.__module__.startswith("addnorm.")


def holds(member: type[Spec], family: type[Spec]) -> bool:
    """Does a member hold others of its own family, as a design made of designs does?"""
    inside = [kind for field in member.model_fields.values() for kind in spec_types(field.annotation)]
    return any(kind.family == family.family for kind in inside)


def spec_types(annotation: Any) -> list[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    return [found for part in typing.get_args(annotation) for found in spec_types(part)]


def mapping(member: type[Spec], nesting: int) -> Data:
    """Some fields given, the others left at their defaults; those without a default always given."""
    given = {name: value(name, field, nesting) for name, field in member.model_fields.items()}
    required = {name for name, field in member.model_fields.items() if field.is_required()}
    return st.fixed_dictionaries(
        {"kind": st.just(member.kind), **{name: given[name] for name in required}},
        optional={name: strategy for name, strategy in given.items() if name not in required},
    )


def value(name: str, field: FieldInfo, nesting: int) -> Data:
    if name in SIZES:
        return SIZES[name]
    return of_type(field.annotation, field.metadata, nesting)


def of_type(annotation: Any, limits: list[Any], nesting: int) -> Data:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return mapping(annotation, nesting) if annotation.kind else members(annotation, max(0, nesting - 1))
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return of_type(parts[0], [*limits, *expanded(parts[1:])], nesting)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of_type(part, limits, nesting) for part in parts])
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin is tuple:
        return st.lists(of_type(parts[0], limits, nesting), max_size=3)
    if annotation is type(None):
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.sampled_from([number for number in range(13) if within(number, limits)])
    if annotation is float:
        return st.sampled_from([number for number in FLOATS if within(number, limits)])
    raise NotImplementedError(f"no strategy for {annotation}: add one, so that the field is drawn")


def expanded(metadata: tuple[Any, ...]) -> list[Any]:
    """pydantic's Field(ge=1) inside an Annotated keeps its limits in a metadata list of its own."""
    return [limit for item in metadata for limit in (item.metadata if isinstance(item, FieldInfo) else [item])]


def within(number: float, limits: list[Any]) -> bool:
    holds = {
        Ge: lambda limit: number >= limit.ge,
        Gt: lambda limit: number > limit.gt,
        Le: lambda limit: number <= limit.le,
        Lt: lambda limit: number < limit.lt,
        MultipleOf: lambda limit: number % limit.multiple_of == 0,
    }
    return all(holds[type(limit)](limit) for limit in limits if type(limit) in holds)


@st.composite
def models(draw: st.DrawFn, kind: str, nesting: int = 3) -> dict[str, Any]:
    """A model of that kind as data, at a size that is built in a moment.

    Left to chance alone, most would be refused for the same two reasons: so widths are mostly a multiple of the heads,
    and attention is mostly an attention.
    """
    data = draw(mapping(ModelSpec.named(kind), nesting))
    heads = draw(st.integers(1, 4))
    fitting = st.sampled_from([1, 2, 2, 3, 4]).map(lambda head_width: heads * head_width)
    data |= {"heads": heads, "width": draw(st.one_of(fitting, fitting, fitting, st.integers(1, 9)))}
    data["depth"] = draw(SIZES["depth"])
    if "vocab" in ModelSpec.named(kind).model_fields:
        data["vocab"] = draw(SIZES["vocab"])
    if draw(st.sampled_from([True, True, True, False])):
        data["attention"] = draw(mapping(Attention, nesting))
    return data
