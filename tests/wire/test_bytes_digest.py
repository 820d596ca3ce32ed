"""The same bytes from every environment that runs these tests: both TFLite runtimes, numpy 1.26 and 2."""

import ast
from pathlib import Path

import pytest

from nightjar import wire
from tests.wire.bytes_digest import EXPECTED, LAYOUTS, digest, topk4, update


def test_every_codec_writes_the_bytes_that_it_wrote_everywhere_else():
    assert digest() == EXPECTED


def test_another_update_gives_other_bytes():
    assert topk4(update(LAYOUTS["odd"], 3), LAYOUTS["odd"]) != topk4(update(LAYOUTS["odd"], 4), LAYOUTS["odd"])


MODULES = sorted(Path(wire.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_counts_for_numpy_are_in_the_machines_own_integers(path):
    """A 32-bit numpy refuses int64 where it counts; this cannot be seen on a 64-bit machine in another way."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            match node.func.attr:
                case "repeat":
                    counts = node.args[1]
                case "bincount":
                    counts = node.args[0]
                case _:
                    continue
            assert "np.intp" in ast.unparse(counts), f"{path.name}:{node.lineno}"
