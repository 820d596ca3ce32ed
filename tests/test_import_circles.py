"""No modules of ours import each other in a circle, wherever the imports stand and even if only for their types."""

import ast
import graphlib
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.name for path in (ROOT / "nightjar").iterdir() if path.is_dir() and path.name != "__pycache__")


def modules_of(root: Path, packages) -> dict[str, Path]:
    """Name -> file of each module below the packages."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(("nightjar", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(tree: ast.AST, modules) -> set[str]:
    """The modules among ``modules`` that a piece of source imports, also inside functions and conditions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= within if within <= modules.keys() else {node.module, *within}
    return names & modules.keys()


def imports_of(modules) -> dict[str, set[str]]:
    return {name: imported(ast.parse(path.read_text()), modules) - {name} for name, path in modules.items()}


def circle_of(imports) -> list[str] | None:
    """A circle of imports, its first module again at its end; None if there is none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def modules():
    return modules_of(ROOT, PACKAGES)


def test_no_import_circle_is_left(modules):
    assert len(modules) > 500
    assert circle_of(imports_of(modules)) is None


def test_no_import_for_types_alone_stays_within_a_package(modules):
    """It would be what is left of a circle, or of a module that is too large to load."""
    found = [
        (name, other)
        for name, path in modules.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for other in imported(node, modules)
        if other.split(".")[1] == name.split(".")[1]
    ]
    assert found == []


@pytest.mark.parametrize(
    "closing",
    [
        "from nightjar.ours import first",
        "import nightjar.ours.first",
        "from nightjar.ours.first import ONE",
        "def later():\n    from nightjar.ours.first import ONE",
        "if TYPE_CHECKING:\n    from nightjar.ours.first import ONE",
    ],
)
def test_a_circle_of_three_is_found(tmp_path, closing):
    (tmp_path / "ours").mkdir()
    for name, source in (
        ("__init__", ""),
        ("first", "from nightjar.ours.second import TWO"),
        ("second", "import nightjar.ours.third"),
        ("third", closing),
    ):
        (tmp_path / "ours" / f"{name}.py").write_text(source)
    imports = imports_of(modules_of(tmp_path, ["ours"]))
    circle = circle_of(imports)
    assert {name.rpartition(".")[2] for name in circle} == {"first", "second", "third"}
    assert all(one in imports[other] or other in imports[one] for one, other in pairwise(circle))
