"""The fuzzer of sequences: it reaches what it is for, and keeps what breaks a coordinator or an agent."""

import contextlib
import random

import msgspec
import pytest

from nightjar.coordinator.engine.driver import Driver
from tests.fuzz import sequences
from tests.fuzz.sequences import FuzzedCoordinator, Script, Sequences

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _found_scripts_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sequences, "FOUND", tmp_path / "fuzz")


def test_scripts_leave_a_coordinator_and_an_agent_that_work():
    rng = random.Random(0)
    with contextlib.closing(Sequences()) as fuzzed:
        for number in range(60):
            fuzzed.attempt(bytes([number % 2]) + rng.randbytes(120))
    assert fuzzed.steps == {"coordinator": 30, "agent": 30}


def test_scripts_reach_rounds_that_end_and_changes_by_operators(tmp_path):
    rng = random.Random(1)
    with contextlib.closing(FuzzedCoordinator(tmp_path)) as fuzzed:
        for _ in range(40):
            fuzzed.run(Script(rng.randbytes(150)))
        with fuzzed.service.database.transaction() as tx:
            assert tx.counters().get("malformed_messages", 0) > 20
            assert tx.last_round_number() > 1


def test_what_breaks_a_coordinator_is_kept_and_can_be_shown_again(tmp_path, monkeypatch, capsys):
    def fragile(self, *events):
        if any(getattr(each, "payload", None) == b"\x07" for each in events):
            raise KeyError("seven")
        return whole(self, *events)

    whole = Driver.handle
    monkeypatch.setattr(Driver, "handle", fragile)
    # A message (0) of device a, check-in, shard 0, topic as it is, payload of its own (3) of one byte.
    script = bytes([0, 0, 0, 0, 0, 1, 3, 1, 7, 0])
    with contextlib.closing(Sequences()) as fuzzed, pytest.raises(KeyError):
        fuzzed.attempt(script)
    (kept,) = (tmp_path / "fuzz").iterdir()
    assert msgspec.msgpack.decode(kept.read_bytes()) == [script]
    assert str(kept) in capsys.readouterr().err
    with pytest.raises(KeyError):
        sequences.replay(str(kept))
