"""docs/designs.md is what the classes say today."""

from pathlib import Path

from addnorm.atlas.designs_page import render

PAGE = Path(__file__).parents[2] / "docs" / "designs.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make docs`"
