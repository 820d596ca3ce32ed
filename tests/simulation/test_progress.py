import io

import pytest
from rich.console import Console

from nightjar.simulation.progress import LINES, progress, say


@pytest.mark.parametrize("count", [0, 1, 9, 10, 95, 1000])
def test_every_item_comes_and_about_ten_lines_say_how_far_that_is(count):
    file = io.StringIO()
    assert list(progress(Console(file=file), list(range(count)), "steps")) == list(range(count))
    lines = file.getvalue().splitlines()
    assert len(lines) <= LINES + 1
    if count:
        assert lines[-1] == f"steps: {count} of {count}"


def test_a_terminal_gets_a_bar():
    file = io.StringIO()
    assert list(progress(Console(file=file, force_terminal=True, width=60), [1, 2, 3], "steps")) == [1, 2, 3]
    assert "100%" in file.getvalue()


def test_a_line_is_never_broken():
    file = io.StringIO()
    say(Console(file=file, width=20), "x" * 90)
    assert file.getvalue() == "x" * 90 + "\n"
