import os

import pytest

from nightjar.host.programs import find_program, run_program
from nightjar.wire.errors import UnavailableError


def test_what_a_program_prints_and_its_status_come_back():
    done = run_program(["sh", "-c", "printf 'a\\377'; echo b >&2; cat; exit 3"], 60.0, os.environ)
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\ufffd", "b\n")


def test_a_program_that_is_missing_or_hangs_is_told_with_its_remedy():
    with pytest.raises(UnavailableError, match=r"no-such-program could not be run: .*\(apt install it\)"):
        run_program(["no-such-program"], 60.0, remedy="apt install it")
    with pytest.raises(UnavailableError, match="sleep could not be run"):
        run_program(["sleep", "60"], 0.01)


def test_programs_of_an_administrator_are_found(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_program("no-such-program") is None
    assert find_program("ldconfig") in {"/usr/sbin/ldconfig", "/sbin/ldconfig"}
