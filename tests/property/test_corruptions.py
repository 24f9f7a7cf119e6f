"""A good configuration with one thing wrong: refused in a sentence, or still a configuration. Never another error."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from addnorm.arrangements import CATALOGUE
from addnorm.models import BUNDLES, EncoderDecoderSpec, ModelSpec, TabTransformerSpec
from addnorm.spec import SpecError
from tests.property.test_models import LONG, SHORT, assert_comes_back, assert_one_sentence

GOOD = [
    *BUNDLES.values(),
    TabTransformerSpec(categories=(2, 3)),
    *(
        EncoderDecoderSpec(arrangement=design, decoder_arrangement="by_layer", source_vocab=9)
        for design in CATALOGUE.values()
    ),
]
WRONG = [None, True, False, 0, 1, -1, 2.5, float("nan"), float("inf"), 10**30, "", "3", "nan", "pre_ln", "no\nline"]
WRONG += [[], [1], {}, {"kind": "pre_ln"}, {"kind": 3}, {"kind": ""}, b"bytes", object(), (), {1, 2}]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value stands, containers too."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = [(*path, key) for key, _ in inside]
    return found + [deeper for key, item in inside for deeper in places(item, (*path, key))]


def container(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        data = data[key]
    return data


@st.composite
def corrupted(draw: st.DrawFn) -> tuple[str, dict[str, Any], ModelSpec]:
    good = draw(st.sampled_from(GOOD))
    data = copy.deepcopy(good.to_dict())
    path = draw(st.sampled_from(places(data)))
    home = container(data, path)
    how = draw(st.sampled_from(["drop", "drop a kind", "replace", "add"]))
    if how == "drop a kind":
        path = draw(st.sampled_from([place for place in places(data) if place[-1] == "kind"]))
        del container(data, path)["kind"]
    elif how == "drop":
        del home[path[-1]]
    elif how == "replace":
        home[path[-1]] = draw(st.sampled_from(WRONG))
    elif isinstance(home, dict):
        home[draw(st.text(max_size=8))] = draw(st.sampled_from(WRONG))
    else:
        home.append(draw(st.sampled_from(WRONG)))
    return how, data, good


def check(how: str, data: dict[str, Any], good: ModelSpec) -> None:
    try:
        came = ModelSpec.from_dict(data)
    except SpecError as error:
        event(f"{how}: refused")
        assert_one_sentence(error)
        return
    event(f"{how}: accepted")
    assert_comes_back(came)
    if how == "drop a kind":
        assert came == good, "a mapping whose kind is a matter of course must still mean the same"


@given(corrupted())
@SHORT
def test_one_thing_wrong(case):
    check(*case)


@pytest.mark.slow
@given(corrupted())
@LONG
def test_one_thing_wrong_a_thousand_times(case):
    check(*case)
