"""Rescaled changes the birth of a design and nothing of its formula."""

from __future__ import annotations

import pytest

from addnorm.arrangements import PostLN, PreLN, Rescaled
from tests.papers.stacks import Case, assert_follows, every_case, specimen
from tests.papers.test_post_ln import post_ln
from tests.papers.test_pre_ln import pre_ln


@pytest.mark.parametrize(("inner", "reference"), [(PreLN(), pre_ln), (PostLN(), post_ln)])
@every_case
def test_rescaled_is_the_formula_of_what_it_wraps(case: Case, inner, reference) -> None:
    assert_follows(specimen(Rescaled(inner=inner), case), reference)
