"""The fuzzer itself: it starts from valid bytes, reaches every decoder, and keeps what breaks one."""

import random

import pytest

from nightjar.wire.errors import RemoteProtocolError
from tests.fuzz import decoders
from tests.fuzz.targets import Defect, Target, _same, targets
from tests.wire.independent_modelled import Refused

TARGETS = {target.name: target for target in targets()}


@pytest.fixture(autouse=True)
def _found_inputs_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(decoders, "FOUND", tmp_path / "fuzz")


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_valid(name):
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.endswith("-large")])
def test_mutations_are_messages_or_protocol_errors(name):
    rng, tally = random.Random(0), decoders.Tally()
    for _ in range(60):
        decoders.attempt(TARGETS[name], decoders.mutated(TARGETS[name], rng), tally)
    assert tally.inputs[name] == 60


def test_what_breaks_a_decoder_is_kept_and_can_be_shown_again(tmp_path, capsys):
    def read(data):
        if data == b"bad":
            raise KeyError(data)
        raise RemoteProtocolError("no", code="payload")

    target, tally = Target("fragile", [b"good"], read), decoders.Tally()
    decoders.attempt(target, b"good", tally)
    with pytest.raises(KeyError):
        decoders.attempt(target, b"bad", tally)
    (kept,) = (tmp_path / "fuzz").iterdir()
    assert kept.read_bytes() == b"bad"
    assert str(kept) in capsys.readouterr().err
    assert tally.accepted.total() == 0


def test_a_decoder_that_accepts_what_the_other_refuses_is_a_defect():
    def refuse():
        raise Refused

    with pytest.raises(Defect):
        _same(lambda: [1], refuse)
    _same(lambda: [1], lambda: [1])
