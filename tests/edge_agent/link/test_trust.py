"""What a device obeys: a review's proofs, and what must not orphan a fleet."""

import subprocess
import sys

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nightjar.edge_agent.link.trust import REFUSED, TRUSTED, WHY, KnownKey, trusted
from nightjar.edge_agent.shell.signatures import checked_in_a_process, signature_valid
from nightjar.wire import messages, topics
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.messages import Announcement, Assignment, CodecChoice, Succession, TrainingPlan
from nightjar.wire.signatures import signed_bytes, succession_bytes

OURS, THEIRS, NEXT, LAST, RECOVERY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(1, 6))
MANIFEST, OTHER = "a" * 64, "b" * 64
NOW_S, HOUR_S, YEAR_S = 1.8e9, 3600.0, 365.25 * 86400


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


def sealed(key, message, topic=None, population="demo", device="pi"):
    kind = messages.KINDS[type(message)]
    places = {"announce": topics.announce(population), "assignment": topics.down(population, device, "assignment")}
    sign = (lambda text: key.sign(signed_bytes(topic or places[kind], text)).hex()) if key else lambda _text: ""
    return kind, messages.encode(message, sign)


def announcement(number=1, signed_s=NOW_S, **changes):
    fields = {"version": 1, "manifest": MANIFEST, "task": "keyboard", "not_after_s": signed_s + HOUR_S}
    return Announcement(**(fields | {"number": number, "signed_s": signed_s} | changes))


def assignment(number=1, signed_s=NOW_S, **changes):
    fields = {
        "task": "keyboard",
        "round": 1,
        "attempt": 1,
        "version": 1,
        "manifest": MANIFEST,
        "codec": CodecChoice(),
        "plan": TrainingPlan(learning_rate=1.0, clip_norm=1.0),
        "report_deadline_s": 600.0,
        "not_after_s": signed_s + HOUR_S,
    }
    return Assignment(**(fields | {"number": number, "signed_s": signed_s} | changes))


def succession(signer, key, number=0):
    said = succession_bytes("demo", public(signer), public(key), number)
    return Succession(key=public(key), signer=public(signer), signature=signer.sign(said).hex(), number=number)


OUR_KEY, RECOVERY_KEY = public(OURS), public(RECOVERY)


class Device:
    """Has the coordinator's key; its clock is not synchronised unless ``now_s`` says the time."""

    def __init__(self, now_s=None, given=OUR_KEY, recovery=RECOVERY_KEY, check=signature_valid):
        self.compared = []
        self.facts, self.now_s, self.given, self.recovery, self.check = Facts(), now_s, given, recovery, check
        self.start()

    def start(self):
        keys = (self.given, self.recovery)
        self.trust = KnownKey(
            "demo",
            "pi",
            self.facts,
            *keys,
            is_valid=self.check,
            now_s=lambda: self.now_s,
            compare=lambda signed_s: self.compared.append(signed_s),
        )

    def obey(self, message, key=OURS, **changes):
        self.trust.check(*sealed(key, message, **changes))

    def refuse(self, message, key=OURS, code="signature", **changes):
        with pytest.raises(RemoteProtocolError) as refused:
            self.obey(message, key, **changes)
        assert refused.value.code == code, refused.value

    def hear(self, key, *successions, **changes):
        self.trust.announced(sealed(key, announcement(key=public(key), successions=successions, **changes))[1])


def test_orders_of_the_given_key_are_obeyed_and_others_refused_and_counted():
    device = Device()
    device.obey(announcement())
    device.obey(assignment())
    bad = [None, THEIRS]
    for key in bad:
        for order in (announcement(), assignment()):
            device.refuse(order, key)
    assert device.facts[REFUSED] == str(2 * len(bad))
    assert "coordinator_key" in device.facts[WHY]


def test_a_plan_or_codec_beside_a_genuine_signature_is_refused():
    device = Device()
    kind, payload = sealed(OURS, assignment())
    held = messages.sealed(payload)
    for text in (
        held.signed.replace("topk-4", "dense-f32"),
        held.signed.replace('"learning_rate":1.0', '"learning_rate":1000'),
        held.signed.replace('"max_steps":1000000', '"max_steps":1'),
        held.signed.replace(MANIFEST, OTHER),
    ):
        assert text != held.signed
        forged = msgspec.json.encode(messages.Sealed(signed=text, signature=held.signature))
        with pytest.raises(RemoteProtocolError, match="is not by key"):
            device.trust.check(kind, forged)
    device.trust.check(kind, payload)


def test_an_order_holds_for_its_population_its_device_and_its_kind():
    device = Device()
    device.refuse(assignment(), device="another")
    device.refuse(assignment(), population="another")
    device.refuse(announcement(), population="another")
    device.refuse(announcement(), topic=topics.down("demo", "pi", "assignment"))


def test_version_1_is_refused_after_version_900_also_by_the_next_process():
    device = Device()
    device.obey(announcement(number=900, version=900))
    for _ in range(2):
        device.refuse(announcement(number=1, version=1), code="rollback")
        device.refuse(assignment(number=899), code="rollback")
        device.start()
    device.obey(assignment(number=900))
    device.obey(assignment(number=1, task="another"))  # each task has numbers of its own


def test_a_rollback_is_a_higher_number_over_an_older_version():
    device = Device()
    device.obey(announcement(number=10, version=7))
    device.obey(announcement(number=11, version=6))
    device.refuse(announcement(number=10, version=7), code="rollback")


def test_a_device_that_knows_the_time_refuses_what_is_over():
    device = Device(now_s=NOW_S)
    device.obey(assignment())
    device.now_s = NOW_S + 2 * HOUR_S
    device.refuse(assignment(number=2, attempt=2), code="expired")
    device.obey(assignment(number=2, signed_s=NOW_S + 2 * HOUR_S))


@pytest.mark.parametrize("wrong_s", [0.0, NOW_S - YEAR_S, 2**31 + 1.0, 4e9])
def test_a_device_that_does_not_know_the_time_ranks_orders_by_their_numbers_alone(wrong_s):
    device = Device(now_s=None)
    device.obey(announcement(number=10, signed_s=wrong_s))
    device.obey(assignment(number=11, signed_s=NOW_S))
    device.refuse(announcement(number=10, signed_s=NOW_S + HOUR_S), code="rollback")
    device.obey(assignment(number=12, signed_s=wrong_s, attempt=2))


def test_each_new_order_tells_the_clock_when_it_was_signed_and_a_replayed_one_does_not():
    device = Device(now_s=None)
    device.obey(announcement(number=10, signed_s=NOW_S))
    device.obey(assignment(number=10, signed_s=NOW_S + HOUR_S))
    device.refuse(assignment(number=9, signed_s=NOW_S + 2 * HOUR_S), code="rollback")
    device.refuse(assignment(number=11, signed_s=NOW_S + 3 * HOUR_S), THEIRS)
    device.obey(assignment(number=12, signed_s=NOW_S + 4 * HOUR_S))
    assert device.compared == [NOW_S, NOW_S + 4 * HOUR_S]


def test_the_year_2038_is_a_year_like_any_other():
    device = Device(now_s=2**31 + 5.0)
    device.obey(assignment(number=2**31 * 1000, signed_s=2**31 + 1.0))


def test_a_coordinator_whose_clock_was_in_2038_is_obeyed_at_once_when_it_is_right_again():
    device = Device(now_s=None)
    device.obey(announcement(number=10, signed_s=2**31 + 1.0))
    device.obey(announcement(number=10, signed_s=NOW_S, version=8))
    device.obey(announcement(number=11, signed_s=NOW_S))


def test_a_new_key_counts_only_with_the_word_of_the_one_before():
    device = Device()
    device.obey(announcement(number=900))
    device.hear(NEXT)
    device.refuse(assignment(), NEXT)
    device.hear(NEXT, succession(THEIRS, NEXT))
    device.refuse(assignment(), NEXT)
    forged = msgspec.structs.replace(succession(OURS, THEIRS), key=public(NEXT))
    device.hear(NEXT, forged)
    device.refuse(assignment(), NEXT)
    device.obey(assignment(number=900))
    device.hear(NEXT, succession(OURS, NEXT))
    device.obey(assignment(number=1), NEXT)  # it begins with no numbers
    device.refuse(assignment(number=901))
    device.start()
    device.refuse(assignment(number=901))
    device.obey(assignment(number=2), NEXT)
    assert trusted(device.facts, public(OURS)).key == public(NEXT)


def test_a_device_that_missed_changes_of_keys_follows_all_of_them():
    device = Device()
    device.hear(THEIRS, succession(OURS, NEXT), succession(RECOVERY, THEIRS, 5))
    device.obey(assignment(), THEIRS)


def test_a_lost_or_stolen_key_is_replaced_by_the_recovery_keys_word_once():
    device = Device()
    stolen = succession(OURS, THEIRS)
    device.hear(THEIRS, stolen)
    device.obey(assignment(number=2**52, signed_s=4e9), THEIRS)  # a thief was here
    recovered = succession(RECOVERY, NEXT, 7)
    device.hear(NEXT, recovered)
    device.obey(assignment(), NEXT)
    again = succession(NEXT, LAST)
    device.hear(LAST, recovered, again)
    device.obey(assignment(), LAST)
    for replayed in (recovered, stolen, succession(RECOVERY, THEIRS, 6)):
        device.hear(THEIRS, replayed)
        device.refuse(assignment(number=9), THEIRS)
        device.refuse(assignment(number=9), NEXT)
    device.obey(assignment(number=2), LAST)


def test_a_device_learns_the_recovery_key_from_what_its_coordinator_signed_and_keeps_the_first():
    device = Device(recovery="")
    forged = announcement(recovery=public(THEIRS))
    device.trust.announced(sealed(THEIRS, forged)[1])
    device.obey(assignment())
    device.trust.announced(sealed(OURS, announcement(recovery=public(RECOVERY)))[1])
    device.obey(assignment(attempt=2))
    device.trust.announced(sealed(OURS, announcement(recovery=public(THEIRS)))[1])
    device.obey(assignment(attempt=3))
    assert trusted(device.facts, public(OURS)).recovery == public(RECOVERY)


def test_the_first_key_that_is_announced_is_kept_for_good():
    device = Device(given="", recovery="")
    device.obey(assignment(), None)  # nothing to compare with yet
    device.trust.announced(sealed(None, announcement())[1])
    device.hear(OURS)
    device.hear(THEIRS)
    for _ in range(2):
        device.obey(assignment())
        device.refuse(assignment(), THEIRS)
        device.refuse(assignment(), None)
        device.start()


def test_a_key_that_its_owner_gives_it_begins_anew():
    device = Device()
    device.obey(announcement(number=900))
    device.given = public(THEIRS)
    device.start()
    device.obey(announcement(number=1), THEIRS)
    device.refuse(announcement(number=901))


def test_a_full_disk_lets_nothing_through():
    device = Device()
    device.facts.full = True
    device.refuse(assignment(), None)
    with pytest.raises(UnavailableError):
        device.obey(assignment())  # else it could be taken back by a replay


def test_a_key_that_is_no_point_of_the_curve_signs_nothing():
    Device(given="f" * 64).refuse(assignment())


def test_an_agent_that_checks_orders_does_not_load_the_library_for_it():
    kind, payload = sealed(OURS, assignment())
    probe = (
        "import sys, nightjar.edge_agent.assembly\n"
        "from nightjar.edge_agent.link.trust import KnownKey\n"
        "from nightjar.edge_agent.shell.signatures import checked_in_a_process\n"
        "class Facts(dict):\n"
        "    fact, remember = dict.get, dict.__setitem__\n"
        f"trust = KnownKey('demo', 'pi', Facts(), '{public(OURS)}', is_valid=checked_in_a_process)\n"
        f"trust.check('{kind}', {payload!r})\n"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_the_same_order_is_checked_once():
    asked = []

    def ask(_key, _signature, signed):
        asked.append(signed)
        return True

    trust = KnownKey("demo", "pi", Facts(), public(OURS), is_valid=ask)
    for order in (announcement(), announcement(), assignment()):
        trust.check(*sealed(OURS, order))
    assert len(asked) == 2


def test_what_cannot_be_found_out_is_neither_taken_nor_counted(monkeypatch):
    device = Device(check=checked_in_a_process)
    for interpreter in ("/no/such/interpreter", "/bin/false"):
        monkeypatch.setattr(sys, "executable", interpreter)
        with pytest.raises(UnavailableError, match="could not be checked"):
            device.obey(assignment())
    assert device.facts == {}
    assert TRUSTED not in device.facts
