"""The coordinator unpickles nothing: unpickling runs code, here beside every key (docs/adr/0051)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNPICKLERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "ray", "shelve"}
SOURCES = sorted(path for part in ("coordinator", "host", "wire") for path in (ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_coordinator_can_unpickle(path):
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named = [keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords]
    assert ({name.split(".")[0] for name in imported} & UNPICKLERS, "allow_pickle" in named) == (set(), False)
