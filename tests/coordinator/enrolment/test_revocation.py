import threading
import time

import pytest
from msgspec import structs

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer, claim_hash
from nightjar.coordinator.enrolment.claims import Claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.enrolment.revocation import (
    EVICT_AT_LOOKS,
    MOST_LOOKS,
    PATIENCE_LOOKS,
    TELL_AGAIN_AT_LOOKS,
    RevocationEnforcer,
)
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tls.authority import fingerprint, new_request
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import ACCESS, Changes, refresh, refused_serials, revoked_serials
from nightjar.wire.errors import UnavailableError
from tests.enrolment.in_this_process import InThisProcess

NOW_S, DAY_S = 1.7e9, 86400.0
REVOKED = Changes(server=False, authorities=False, revoked=True)


class Clock:
    def __init__(self) -> None:
        self.time_s = NOW_S

    def now_s(self) -> float:
        return self.time_s


class House:
    """A register, and a gate that notes what it does instead."""

    def __init__(self, folder) -> None:
        self.config = CoordinatorConfig(task=TaskConfig(model=folder), data_dir=folder)
        self.database = Database(f"sqlite:///{folder / 'test.sqlite'}")
        self.register, self.clock = Register(self.database), Clock()
        self.signer = InThisProcess(folder / "authority", NOW_S)
        self.issuer = CertificateIssuer(self.config, self.register, self.signer, self.clock, "ab" * 32)
        self.changes, self.evicted, self.fault, self.flooding = [], [], None, set()
        self.gate = self.new_gate()
        refresh(self.config, self.signer, (), NOW_S)

    def new_gate(self) -> RevocationEnforcer:
        return RevocationEnforcer(
            self.config,
            self.register,
            self.signer,
            self.clock,
            self.changes.append,
            self.evict,
            flooding=lambda: self.flooding,
        )

    def evict(self, devices, serials) -> None:
        if self.fault is not None:
            raise self.fault
        self.evicted.append((set(devices), set(serials)))

    def enrolled(self, device: str) -> str:
        claim = Claim(
            name=f"for-{device}-{len(self.register.claims())}",
            sha256=claim_hash(device + str(len(self.register.claims()))),
            device=device,
            created_s=NOW_S,
            expires_s=NOW_S + 100,
        )
        self.register.add_claim(claim, "test")
        characters = device + str(len(self.register.claims()) - 1)
        self.issuer.enrol(characters, new_request()[1], "192.0.2.1")
        newest = next(each for each in self.register.credentials() if each.device == device and each.serial)
        self.register.seen(newest.serial, NOW_S)
        return newest.serial


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path)
    yield made
    made.database.close()


def access(house) -> str:
    return (house.config.data_dir / FOLDER / ACCESS).read_text()


def test_who_is_revoked_is_written_down_told_to_the_servers_and_thrown_out(house):
    serial = house.enrolled("pi")
    house.gate.look()
    assert house.evicted == []
    house.changes.clear()
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    assert house.changes == [REVOKED]
    assert refused_serials(house.config.data_dir / FOLDER) == {serial}
    assert "user pi\ntopic deny #\n" in access(house)
    house.gate.sign()
    assert revoked_serials(house.config.data_dir / FOLDER) == {serial}
    for _ in range(MOST_LOOKS + 5):
        house.gate.look()
    assert "user pi" not in access(house), "its certificate is on the list, and the device may come back with another"
    assert house.evicted == [({"pi"}, {serial})] * len(EVICT_AT_LOOKS)
    assert [change for change in house.changes if change] == [REVOKED] * 3
    assert house.gate.troubles == []


def test_the_servers_are_told_again_of_the_last_change_because_mosquitto_loses_a_signal_while_it_reads(house):
    house.enrolled("pi")
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    house.gate.sign()
    house.gate.look()  # lifts the denial by name
    house.changes.clear()
    told = []
    for _ in range(2 * max(TELL_AGAIN_AT_LOOKS)):
        house.gate.look()
        told.append(len(house.changes))
        house.changes.clear()
    assert {number for number, times in enumerate(told, 1) if times} == TELL_AGAIN_AT_LOOKS


def broken(_question):
    raise UnavailableError("the authority does not answer")


def test_revocation_does_not_wait_for_the_authority(house, monkeypatch):
    """Proven before: with an authority that was dead or hung, nobody was ever thrown out."""
    serial = house.enrolled("pi")
    house.gate.look()
    house.register.revoke("pi", "test", NOW_S)
    whole = house.signer.ask
    monkeypatch.setattr(house.signer, "ask", broken)
    for number in range(PATIENCE_LOOKS + 1):
        assert house.gate.troubles == []
        house.gate.look()
        assert house.evicted == [({"pi"}, {serial})] * (number + 1), "at each look: mosquitto lets it connect"
    assert refused_serials(house.config.data_dir / FOLDER) == {serial}
    assert "user pi\ntopic deny #\n" in access(house)
    assert house.gate.troubles == [
        "revocation is impaired: 1 revoked certificate(s) wait for the authority's signature"
    ]
    monkeypatch.setattr(house.signer, "ask", whole)
    house.gate.sign()
    house.gate.look()
    assert (house.gate.troubles, "user pi" in access(house)) == ([], False)


def test_a_list_that_is_not_signed_is_a_trouble_and_tried_again(house, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.enrolment.revocation.LOOK_S", 0.01)
    monkeypatch.setattr("nightjar.coordinator.enrolment.revocation.REFRESH_S", 0.01)
    tried = threading.Semaphore(0)

    def ask(question):
        tried.release()
        broken(question)

    whole = house.signer.ask
    monkeypatch.setattr(house.signer, "ask", ask)
    house.gate.start()
    try:
        for _ in range(3):
            assert tried.acquire(timeout=60)
        assert house.gate.troubles == ["revocation is impaired: the authority does not answer"]
        monkeypatch.setattr(house.signer, "ask", whole)
        deadline_s = time.monotonic() + 60
        while house.gate.troubles:
            assert time.monotonic() < deadline_s
    finally:
        house.gate.close()


def test_nobody_is_thrown_out_again_after_a_restart_but_stays_out(house):
    serial = house.enrolled("pi")
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    house.gate.sign()
    house.evicted.clear()
    again = house.new_gate()
    again.start()
    again.close()
    again.look()
    assert house.evicted == []
    assert revoked_serials(house.config.data_dir / FOLDER) == {serial}
    assert refused_serials(house.config.data_dir / FOLDER) == {serial}


def test_a_certificate_that_has_ended_needs_no_list(house):
    house.enrolled("pi")
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    house.clock.time_s += 91 * DAY_S
    house.gate.look()
    house.gate.sign()
    assert revoked_serials(house.config.data_dir / FOLDER) == refused_serials(house.config.data_dir / FOLDER) == set()


def test_an_eviction_that_a_fault_put_off_is_tried_again_at_the_next_look(house):
    serial = house.enrolled("pi")
    house.gate.look()
    house.register.revoke("pi", "test", NOW_S)
    house.fault = UnavailableError("the broker does not let us")
    for _ in range(2):
        with pytest.raises(UnavailableError):
            house.gate.look()
    house.gate.sign()
    house.fault = None
    house.gate.look()
    assert house.evicted == [({"pi"}, {serial})]


def test_the_device_of_a_blocked_lease_is_shut_out_and_back_in(house):
    serial = house.enrolled("pi")
    with house.database.transaction() as tx:
        tx.save_lease(structs.replace(Lease(device="pi"), blocked="stolen"))
    assert house.register.shut_out(NOW_S) == {serial: "pi"}
    assert house.register.seen(serial, NOW_S) is None
    with house.database.transaction() as tx:
        tx.save_lease(Lease(device="pi"))
    assert house.register.shut_out(NOW_S) == {}
    assert house.register.seen(serial, NOW_S) == "pi"


def test_devices_of_a_former_authority_are_known_until_they_renewed(house):
    (former,) = house.issuer.authorities()
    serial = house.enrolled("pi")
    assert house.register.signed_by(fingerprint(former), NOW_S) == ["pi"]
    house.signer.authority.rotate()
    with pytest.raises(UnavailableError, match="some seconds"):  # our servers do not know it yet
        house.issuer.renew("pi", new_request()[1], "192.0.2.1")
    refresh(house.config, house.signer, (), NOW_S)
    assert house.issuer.standing(serial).renew_s == 0.0
    house.issuer.renew("pi", new_request()[1], "192.0.2.1")
    assert house.register.signed_by(fingerprint(former), NOW_S) == []


def test_who_floods_is_refused_by_name_and_certificate_without_the_authority_and_let_in_again(house):
    serial = house.enrolled("pi")
    house.enrolled("another")
    house.gate.look()
    house.flooding.add("pi")
    for _ in range(3):
        house.gate.look()
    assert refused_serials(house.config.data_dir / FOLDER) == {serial}
    assert "user pi\ntopic deny #\n" in access(house)
    house.gate.sign()
    assert revoked_serials(house.config.data_dir / FOLDER) == frozenset(), "its certificate stays good"
    assert house.evicted == [({"pi"}, {serial})] * 3
    house.flooding.clear()
    for _ in range(3):
        house.gate.look()
    assert refused_serials(house.config.data_dir / FOLDER) == frozenset()
    assert "user pi" not in access(house)
    assert house.evicted == [({"pi"}, {serial})] * 4, "once more, so that it subscribes anew"


def test_a_broker_that_is_too_busy_with_a_flood_is_no_trouble_and_asked_again(house):
    serial = house.enrolled("pi")
    house.flooding.add("pi")
    house.fault = UnavailableError("busy")
    house.gate.look()
    assert house.gate.troubles == []
    house.fault = None
    house.gate.look()
    assert house.evicted == [({"pi"}, {serial})]
