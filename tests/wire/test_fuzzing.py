"""The fuzzer itself: it starts from valid bytes, reaches every decoder, and keeps what breaks one."""

import random
import sys
from pathlib import Path

import pytest

from wire.errors import RemoteProtocolError

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import fuzz_decoders
from fuzz_targets import Target, targets

TARGETS = {target.name: target for target in targets()}


@pytest.fixture(autouse=True)
def _found_inputs_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz_decoders, "FOUND", tmp_path / "fuzz")


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_valid(name):
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.endswith("-large")])
def test_mutations_are_messages_or_protocol_errors(name):
    rng, tally = random.Random(0), fuzz_decoders.Tally()
    for _ in range(60):
        fuzz_decoders.attempt(TARGETS[name], fuzz_decoders.mutated(TARGETS[name], rng), tally)
    assert tally.inputs[name] == 60


def test_what_breaks_a_decoder_is_kept_and_can_be_shown_again(tmp_path, capsys):
    def read(data):
        if data == b"bad":
            raise KeyError(data)
        raise RemoteProtocolError("no", code="payload")

    target, tally = Target("fragile", [b"good"], read), fuzz_decoders.Tally()
    fuzz_decoders.attempt(target, b"good", tally)
    with pytest.raises(KeyError):
        fuzz_decoders.attempt(target, b"bad", tally)
    (kept,) = (tmp_path / "fuzz").iterdir()
    assert kept.read_bytes() == b"bad"
    assert str(kept) in capsys.readouterr().err
    assert tally.accepted.total() == 0


def test_a_decoder_that_accepts_what_the_other_refuses_is_a_defect():
    from fuzz_targets import Defect, _same

    from tests.wire.independent_modelled import Refused

    def refuse():
        raise Refused

    with pytest.raises(Defect):
        _same(lambda: [1], refuse)
    _same(lambda: [1], lambda: [1])
