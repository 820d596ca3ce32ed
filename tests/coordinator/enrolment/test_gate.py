import pytest
from msgspec import structs

from coordinator.config import CoordinatorConfig, TaskConfig
from coordinator.core.enrolment import Claim
from coordinator.core.lease import Lease
from coordinator.enrolment.authority import fingerprint, new_request
from coordinator.enrolment.gate import EVICT_AT_LOOKS, Gate
from coordinator.enrolment.office import Office, claim_hash
from coordinator.enrolment.premises import FOLDER, refresh, revoked_serials
from coordinator.enrolment.register import Register
from coordinator.shell.database import Database
from tests.enrolment.world import InThisProcess
from wire.errors import UnavailableError

NOW_S, DAY_S = 1.7e9, 86400.0


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
        self.office = Office(self.config, self.register, self.signer, self.clock, "ab" * 32)
        self.changes, self.evicted = [], []
        self.gate = self.new_gate()
        refresh(self.config, self.signer, (), NOW_S)

    def new_gate(self) -> Gate:
        return Gate(
            self.config,
            self.register,
            self.signer,
            self.clock,
            self.changes.append,
            lambda devices, serials: self.evicted.append((set(devices), set(serials))),
        )

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
        self.office.enrol(characters, new_request()[1], "192.0.2.1")
        newest = next(each for each in self.register.credentials() if each.device == device and each.serial)
        self.register.seen(newest.serial, NOW_S)
        return newest.serial


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path)
    yield made
    made.database.close()


def test_who_is_revoked_is_written_down_told_to_the_servers_and_thrown_out(house):
    serial = house.enrolled("pi")
    house.gate.look()
    assert house.evicted == []
    house.changes.clear()
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    assert house.changes[0].revoked
    assert revoked_serials(house.config.data_dir / FOLDER) == {serial}
    for _ in range(max(EVICT_AT_LOOKS) + 5):
        house.gate.look()
    assert house.evicted == [({"pi"}, {serial})] * len(EVICT_AT_LOOKS)
    assert len(house.changes) == 1


def test_nobody_is_thrown_out_again_after_a_restart_but_stays_out(house):
    serial = house.enrolled("pi")
    house.register.revoke("pi", "test", NOW_S)
    again = house.new_gate()
    again._known = house.register.shut_out(NOW_S)
    again.look()
    assert house.evicted == []
    assert revoked_serials(house.config.data_dir / FOLDER) == {serial}


def test_a_certificate_that_has_ended_needs_no_list(house):
    house.enrolled("pi")
    house.register.revoke("pi", "test", NOW_S)
    house.gate.look()
    house.clock.time_s += 91 * DAY_S
    house.gate.look()
    assert revoked_serials(house.config.data_dir / FOLDER) == set()


def test_a_fault_is_tried_again_with_the_eviction_that_it_put_off(house, monkeypatch):
    house.enrolled("pi")
    house.gate.look()
    house.register.revoke("pi", "test", NOW_S)
    whole = house.signer.ask

    def broken(_question):
        raise UnavailableError("no")

    monkeypatch.setattr(house.signer, "ask", broken)
    with pytest.raises(UnavailableError):
        house.gate.look()
    monkeypatch.setattr(house.signer, "ask", whole)
    house.gate.look()
    assert house.evicted


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
    (former,) = house.office.authorities()
    serial = house.enrolled("pi")
    assert house.register.signed_by(fingerprint(former), NOW_S) == ["pi"]
    house.signer.authority.rotate(NOW_S)
    with pytest.raises(UnavailableError, match="some seconds"):  # our servers do not know it yet
        house.office.renew("pi", new_request()[1], "192.0.2.1")
    refresh(house.config, house.signer, (), NOW_S)
    assert house.office.standing(serial).renew_s == 0.0
    house.office.renew("pi", new_request()[1], "192.0.2.1")
    assert house.register.signed_by(fingerprint(former), NOW_S) == []
