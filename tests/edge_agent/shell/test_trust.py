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


def test_a_device_with_nothing_to_check_loads_no_cryptography():
    probe = (
        "import sys, edge_agent.assembly\n"
        "from edge_agent.shell.trust import KnownKey\n"
        "class Facts:\n"
        "    def fact(self, name): return None\n"
        "KnownKey('demo', Facts()).check('a' * 64, '')\n"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)
