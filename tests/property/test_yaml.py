"""Any text survives YAML as itself: it must never be read as a number, a boolean, or something shorter."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addnorm.spec import dump_yaml, load_yaml
from tests.property.test_models import LONG, SHORT

LOOKALIKES = st.from_regex(r"[-+]?[0-9._eExobn:~]{1,6}|(?i:true|false|yes|no|on|off|null|nan|inf)", fullmatch=True)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
PLAIN = st.none() | st.booleans() | NUMBERS | LOOKALIKES | st.text(max_size=12)
DATA = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def same(a, b):
    """Equal, and of one type: True is not 1, and 1 is not 1.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


def check(data):
    text = dump_yaml(data)
    assert same(load_yaml(text), data), text


@given(DATA)
@SHORT
def test_data(data):
    check(data)


@given(LOOKALIKES)
@SHORT
def test_what_looks_like_a_number(text):
    check({"key": text, "list": [text]})


@pytest.mark.slow
@given(DATA)
@LONG
def test_data_a_thousand_times(data):
    check(data)
