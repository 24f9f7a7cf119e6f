"""The README is true: its code runs, and its tree is the tree."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_every_module_is_in_the_tree():
    tree = re.search(r"```\nREADME.md(.*?)```", README, flags=re.DOTALL)[1]
    words = set(re.findall(r"[a-z_0-9]+", tree))
    missing = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "addnorm").rglob("*.py"))
        if not path.stem.startswith("__") and path.stem not in words
    ]
    assert not missing


def test_the_tree_names_nothing_that_is_not_there():
    tree = re.search(r"```\nREADME.md(.*?)```", README, flags=re.DOTALL)[1]
    for folder in re.findall(r"^(?:  )?([a-z_]+/)", tree, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir() or (ROOT / "addnorm" / folder).is_dir(), folder
