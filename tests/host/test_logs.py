import ast
import dataclasses
import decimal
import http
import json
import re
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from nightjar.host.logs import in_data, in_words
from nightjar.wire.releases import EVERYBODY, ReleaseOffer

ROOT = Path(__file__).parents[2]
PROGRAM = """
import logging, sys
import structlog
from nightjar.host.logs import configure_logs

configure_logs("info", json=sys.argv[1] == "json")
log = structlog.get_logger("coordinator")
log.debug("too_small")
log.info("round_opened", round=3, reason='said "why" in\\ntwo lines', trial=False)
logging.getLogger("waitress.queue").warning("Task queue depth is %d", 9)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("event failed")
    logging.getLogger("theirs").exception("it broke")
"""


def lines(form: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, form], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line_also_of_libraries_and_of_exceptions():
    opened, theirs, failed, broke = map(json.loads, lines("json"))
    assert (opened["event"], opened["level"], opened["round"], opened["trial"]) == ("round_opened", "info", 3, False)
    assert opened["reason"].endswith("\ntwo lines")
    assert opened["timestamp"].endswith("Z")
    assert (theirs["event"], theirs["logger"]) == ("Task queue depth is 9", "waitress.queue")
    assert "ZeroDivisionError" in failed["exception"]
    assert "ZeroDivisionError" in broke["exception"]


def test_logfmt_is_one_line_an_event_also_of_libraries_and_of_exceptions():
    opened, theirs, failed, broke = lines("logfmt")
    assert "level=info event=round_opened round=3" in opened
    assert "trial=false" in opened
    assert 'level=warning event="Task queue depth is 9" logger=waitress.queue' in theirs
    for line in (failed, broke):
        assert "level=error" in line
        assert "ZeroDivisionError" in line


@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_what_is_below_the_level_is_not_written(form):
    assert "too_small" not in "".join(lines(form))


@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_control_characters_of_strangers_reach_no_terminal(form):
    """Proven before: a carriage return and an escape sequence came through as they were, and could rewrite a line."""
    program = f"""
import logging
import structlog
from nightjar.host.logs import configure_logs

configure_logs("info", json={form == "json"})
hostile = "a" + "".join(map(chr, [*range(32), *range(127, 160)])) + "z"
structlog.get_logger().info("seen", topic=hostile)
logging.getLogger("theirs").warning("%s", hostile)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True)
    said = done.stderr.decode()
    assert said.count("\n") == 2
    assert not {char for char in said if ord(char) < 32 or 127 <= ord(char) < 160} - {"\n"}
    assert all("a" in line and "z" in line for line in said.splitlines())


PACKAGES = ("coordinator", "edge_agent", "experiments", "firmware_scripts", "host", "models", "simulation", "wire")
LOG_CALL = re.compile(r"\blog\.(debug|info|warning|error|critical|exception)$|_log\.\w+$")


def is_notation(part: ast.AST) -> bool:
    """Whether an expression writes an object as Python does."""
    if isinstance(part, ast.FormattedValue):
        return part.conversion in {ord("r"), ord("a")}
    return isinstance(part, ast.Call) and ast.unparse(part.func) in {"repr", "ascii"}


@dataclasses.dataclass
class Fields:
    folder: Path
    names: frozenset[str]


VALUES = {
    "enum": PurePosixPath,
    "path": Path("/var/lib"),
    "bytes": b"typed",
    "set": {"b", "a"},
    "tuple": (1, Path("x")),
    "enums": [signal.SIGTERM, http.HTTPStatus.OK],
    "exception": ValueError("expected a, got b"),
    "empty exception": TimeoutError(),
    "dataclass": Fields(Path("/x"), frozenset({"n"})),
    "struct": ReleaseOffer("0.2.0", EVERYBODY),
    "nested": {"a": {"b": (b"c", {Path("d")})}},
    "numpy": np.float32(0.5),
    "object": object(),
    "generator": iter([1]),
    "function": print,
    "decimal": decimal.Decimal("1.5"),
    "array": np.zeros(3),
}


@pytest.mark.parametrize("form", [in_words, in_data])
@pytest.mark.parametrize("name", VALUES)
def test_no_value_reaches_a_log_in_the_notation_of_python(form, name):
    found = form(VALUES[name])
    said = json.dumps(found) if form is in_data else str(found)
    assert not re.search(r"[<>]|\w+\(|b'|\{'|\['|\('|frozenset|typed", said), said
    assert said


def test_no_event_is_given_the_notation_of_a_python_object():
    """A reader of logs searches for words; ``repr`` also quotes what a stranger sent."""
    found, calls = [], 0
    for path in (each for package in PACKAGES for each in sorted((ROOT / package).rglob("*.py"))):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and LOG_CALL.search(ast.unparse(call.func)):
                calls += 1
                found += [f"{path}:{call.lineno}" for part in ast.walk(call) if is_notation(part)]
    assert found == []
    assert calls > 100, "calls over several lines, too"
