import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edge_agent.shell.trust import KEY, REFUSED, WHY, KnownKey
from wire.errors import RemoteProtocolError, UnavailableError
from wire.signatures import signed_bytes

OURS, THEIRS = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
MANIFEST, OTHER = "a" * 64, "b" * 64


class Facts(dict):
    full = False

    def fact(self, name):
        return self.get(name)

    def remember(self, name, value):
        if self.full:
            raise UnavailableError("no room")
        self[name] = value


def public(key):
    return key.public_key().public_bytes_raw().hex()


def signature(key, manifest=MANIFEST, population="demo"):
    return key.sign(signed_bytes(population, manifest)).hex()


def test_what_the_given_key_signed_is_taken_and_anything_else_refused_and_counted():
    facts = Facts()
    trust = KnownKey("demo", facts, public(OURS))
    trust.check(MANIFEST, signature(OURS))
    bad = ["", "0" * 128, signature(THEIRS), signature(OURS, OTHER), signature(OURS, population="other")]
    for wrong in bad:
        with pytest.raises(RemoteProtocolError) as refused:
            trust.check(MANIFEST, wrong)
        assert refused.value.code == "signature"
    assert facts[REFUSED] == str(len(bad))
    assert "coordinator_key" in facts[WHY]


def test_the_first_key_that_is_announced_is_kept_for_good():
    facts = Facts()
    trust = KnownKey("demo", facts)
    trust.check(MANIFEST, "")  # nothing to compare with yet
    trust.announced("")
    trust.announced(public(OURS))
    trust.announced(public(THEIRS))
    assert facts[KEY] == public(OURS)
    for later in (trust, KnownKey("demo", facts)):
        later.check(MANIFEST, signature(OURS))
        with pytest.raises(RemoteProtocolError, match="not by key"):
            later.check(MANIFEST, signature(THEIRS))
        with pytest.raises(RemoteProtocolError, match="nobody signed"):
            later.check(MANIFEST, "")


def test_a_given_key_counts_more_than_one_that_was_kept():
    trust = KnownKey("demo", Facts({KEY: public(OURS)}), public(THEIRS))
    trust.announced(public(OURS))
    trust.check(MANIFEST, signature(THEIRS))


def test_a_full_disk_lets_nothing_through():
    facts = Facts()
    facts.full = True
    with pytest.raises(RemoteProtocolError, match="nobody signed"):
        KnownKey("demo", facts, public(OURS)).check(MANIFEST, "")


def test_a_key_that_is_no_point_of_the_curve_signs_nothing():
    trust = KnownKey("demo", Facts(), "f" * 64)
    with pytest.raises(RemoteProtocolError):
        trust.check(MANIFEST, signature(OURS))


def test_an_agent_that_checks_models_does_not_load_the_library_for_it():
    probe = (
        "import sys, edge_agent.assembly\n"
        "from edge_agent.shell.trust import KnownKey\n"
        "class Facts:\n"
        "    def fact(self, name): return None\n"
        f"KnownKey('demo', Facts(), '{public(OURS)}').check('{MANIFEST}', '{signature(OURS)}')\n"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_the_same_model_is_checked_once():
    asked = []

    def holds(key, signed_with, signed):
        asked.append(signed)
        return True

    trust = KnownKey("demo", Facts(), public(OURS), holds)
    for manifest in (MANIFEST, MANIFEST, OTHER):
        trust.check(manifest, "0" * 128)
    assert asked == [signed_bytes("demo", MANIFEST), signed_bytes("demo", OTHER)]


def test_what_cannot_be_found_out_is_neither_taken_nor_counted(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/interpreter")
    facts = Facts()
    with pytest.raises(UnavailableError, match="could not be checked"):
        KnownKey("demo", facts, public(OURS)).check(MANIFEST, signature(OURS))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match="could not be checked"):
        KnownKey("demo", facts, public(OURS)).check(MANIFEST, signature(OURS))
    assert facts == {}
