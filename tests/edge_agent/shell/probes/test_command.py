import sys
import time

import pytest

from nightjar.edge_agent.shell.probes.command import run
from nightjar.wire.errors import UnavailableError


def test_output():
    assert run(("printf", "a\\nb"), 10.0) == "a\nb"


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (("nightjar-no-such-program",), "nightjar-no-such-program: No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('broken thing')"), "status 1: broken thing"),
        (("false",), "false ended with status 1: no message"),
    ],
)
def test_what_does_not_work_says_why(command, part):
    with pytest.raises(UnavailableError, match=part):
        run(command, 10.0)


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path):
    begun = time.monotonic()
    note = tmp_path / "survived"
    # The child keeps the pipe open: killing the parent alone would wait for it.
    with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
        run(("sh", "-c", f"(sleep 60; touch {note}) & sleep 600"), 0.3)
    assert time.monotonic() - begun < 40
    assert not note.exists()
