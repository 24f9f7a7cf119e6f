"""Who may import whom, read from the source. An arrow that points the wrong way is found here, not in a review."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1] / "addnorm"
ROOT_NAME = "(the names of addnorm itself)"

# -- the table ---------------------------------------------------------------------------------------------

LAYERS = {"spec", "kernels"}
ARRANGEMENTS = LAYERS | {"layers"}
INIT = ARRANGEMENTS | {"arrangements"}
MODELS = INIT | {"init"}
ABOVE_MODELS = MODELS | {"models"}
EVERYTHING = {
    "spec", "kernels", "layers", "arrangements", "init", "models", "contract", "convert", "tabular", "data", "tasks",
    "train", "clinic", "integrations", "run", "study", "atlas",
}  # fmt: skip

MAY_IMPORT = {
    "spec": set(),
    "kernels": set(),
    "layers": LAYERS,
    "arrangements": ARRANGEMENTS,
    "init": INIT,
    "models": MODELS,
    "contract": ABOVE_MODELS,
    "convert": ABOVE_MODELS,
    "tabular": ABOVE_MODELS,
    "data": {"spec"},
    "tasks": {"spec", "kernels", "data"},
    "train": {"spec", "data", "tasks", "arrangements.base"},
    "clinic": {"spec", "layers", "arrangements"},
    "integrations": {"spec", "clinic", "train"},
    "run": ABOVE_MODELS | {"data", "tasks", "train"},
    "study": {"spec", "run", "clinic"},
    "atlas": ABOVE_MODELS | {"clinic"},
    "cli": EVERYTHING | {ROOT_NAME},
    "__main__": {"cli"},
    ROOT_NAME: EVERYTHING,  # addnorm/__init__.py: names for type checkers; at run time it imports nothing
}
"""Package -> the packages it may import, itself apart. A dotted entry is that one module."""

THIRD_PARTIES = {"torch", "numpy", "pydantic", "pydantic_core", "safetensors", "typer", "rich"}
"""What may be imported at the top of a file. All others are extras: imported where used, inside a function."""

SHAPELESS_NAMES = {"utils", "common", "helpers", "misc", "manager"}


# -- reading the source ------------------------------------------------------------------------------------


class Import(NamedTuple):
    target: str  # dotted, as far as it names a module
    line: int
    inside_function: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}

every_module = pytest.mark.parametrize("module", FILES)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def resolve(module: str, node: ast.ImportFrom) -> str:
    """The absolute name that `from ... import` starts at."""
    if not node.level:
        return node.module or ""
    package = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, *([node.module] if node.module else [])])


@cache
def imports(module: str) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = resolve(module, node)
            for alias in node.names:
                whole = f"{start}.{alias.name}"
                found.append(Import(whole if whole in FILES else start, node.lineno, inside))
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree(module), False)
    return found


def ours(name: str) -> bool:
    return name == "addnorm" or name.startswith("addnorm.")


def below_root(module: str) -> str:
    """addnorm.layers.norms -> layers.norms"""
    return module.partition(".")[2] or ROOT_NAME


def package_of(module: str) -> str:
    return below_root(module).partition(".")[0]


def where(module: str, line: int) -> str:
    return f"{FILES[module].relative_to(ROOT.parent)}:{line}"


# -- arrows ------------------------------------------------------------------------------------------------


def test_the_reader_sees_what_is_there():
    """A reader that finds nothing would let everything pass."""
    assert len(FILES) > 30
    assert "addnorm.layers.norms" in {found.target for found in imports("addnorm.arrangements.local")}


def test_the_table_is_whole():
    packages = {package_of(module) for module in FILES}
    assert packages <= set(MAY_IMPORT), f"a new package needs a row in the table: {packages - set(MAY_IMPORT)}"
    assert set(MAY_IMPORT) == EVERYTHING | {"cli", "__main__", ROOT_NAME}


def test_the_table_has_no_cycle():
    rows = {package: {name.partition(".")[0] for name in MAY_IMPORT[package]} for package in MAY_IMPORT}
    assert not cycle(rows)


@every_module
def test_arrows_point_down(module):
    allowed = MAY_IMPORT[package_of(module)]
    wrong = [
        f"{where(module, found.line)} imports {found.target}"
        for found in imports(module)
        if ours(found.target)
        and package_of(found.target) != package_of(module)
        and not any(f"{below_root(found.target)}.".startswith(f"{name}.") for name in allowed)
    ]
    assert not wrong, f"{package_of(module)} may import {sorted(allowed)} alone: {wrong}"


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A path that comes back to its beginning, or nothing."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node not in done:
            for after in sorted(graph.get(node, ())):
                if found := walk(after, [*path, node]):
                    return found
            done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := walk(node, []))), [])


def test_cycles_are_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_module_imports_itself_by_a_detour():
    graph = {
        module: {found.target for found in imports(module) if ours(found.target)}
        for module in FILES
        if module != "addnorm"  # its imports are for type checkers
    }
    assert not cycle(graph)


@every_module
def test_our_own_modules_are_imported_at_the_top(module):
    inside = [where(module, found.line) for found in imports(module) if found.inside_function and ours(found.target)]
    assert not inside, "an import inside a function hides an arrow; only optional packages are imported there"


@every_module
def test_extras_are_imported_where_they_are_used(module):
    top = {found.target.partition(".")[0] for found in imports(module) if not found.inside_function}
    foreign = top - THIRD_PARTIES - set(sys.stdlib_module_names) - {"addnorm"}
    assert not foreign, f"not among the core libraries: import {foreign} inside the function that needs it"


# -- names and habits --------------------------------------------------------------------------------------


@every_module
def test_a_module_is_named_after_what_it_holds(module):
    assert not SHAPELESS_NAMES & set(module.split("."))


@every_module
def test_nothing_below_the_command_line_prints(module):
    if package_of(module) == "cli":
        return
    prints = [
        where(module, node.lineno)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints, "below the command line the package logs"


BRANCHES = (ast.If, ast.IfExp, ast.Match, ast.While, ast.Try)


@pytest.mark.parametrize("module", ["addnorm.models.block", "addnorm.models.stack"])
def test_block_and_stack_do_not_choose(module):
    """One forward for every mode and every design."""
    forwards = [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    assert forwards
    for node in (inner for forward in forwards for inner in ast.walk(forward)):
        assert not isinstance(node, BRANCHES), where(module, node.lineno)
        assert not (isinstance(node, ast.comprehension) and node.ifs), "a comprehension that filters is an if"


def test_importing_the_package_does_not_load_torch():
    code = "import addnorm, sys; addnorm.__version__; dir(addnorm); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT.parent)
