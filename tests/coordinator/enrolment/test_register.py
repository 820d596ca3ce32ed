"""What one device or a stranger can leave in the register."""

import pytest

from nightjar.coordinator.enrolment.certificate_issuer import Certified, claim_hash
from nightjar.coordinator.enrolment.register import MOST_CERTIFICATES
from nightjar.coordinator.tls.authority import new_request
from tests.coordinator.enrolment.test_revocation import DAY_S, NOW_S, House


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path)
    yield made
    made.database.close()


def test_a_device_has_so_many_certificates_at_once_and_no_more(house):
    """Proven before: 150 renewals of 150 in minutes, each a row for ever and a line of the list after ``forget``."""
    house.enrolled("pi")
    outcomes = [house.issuer.renew("pi", new_request()[1], "2001:db8::1") for _ in range(20)]
    assert [type(each).__name__ for each in outcomes] == ["Certified"] * (MOST_CERTIFICATES - 1) + ["ClaimRefused"] * (
        21 - MOST_CERTIFICATES
    )
    house.register.revoke("pi", "test", NOW_S)
    assert len(house.register.shut_out(NOW_S)) == MOST_CERTIFICATES
    house.enrolled("other")
    assert isinstance(house.issuer.renew("other", new_request()[1], "192.0.2.1"), Certified)


def test_a_device_renews_again_when_its_former_certificates_have_ended(house):
    house.enrolled("pi")
    for _ in range(10):
        house.clock.time_s += 60 * DAY_S
        house.signer.now_s = house.clock.time_s
        assert isinstance(house.issuer.renew("pi", new_request()[1], "192.0.2.1"), Certified)


def test_strangers_fill_so_much_of_the_audit_log_and_no_more(house, monkeypatch):
    """Proven before: a row for each claim that was made up, 120 of 120, for ever."""
    monkeypatch.setattr("nightjar.coordinator.enrolment.register.MOST_REFUSALS", 5)
    house.enrolled("pi")
    used = "pi0"
    for number in range(20):
        house.register.redeem(claim_hash(f"made up {number}"), f"{number:064d}", "", "192.0.2.1", NOW_S)
    house.register.redeem(claim_hash(used), f"{77:064d}", "", "192.0.2.1", NOW_S)
    for number in range(20):
        house.register.redeem(claim_hash(f"made up {number}"), f"{number:064d}", "", "192.0.2.1", NOW_S)
    with house.database.transaction() as tx:
        entries = [(entry.action, entry.before) for entry in tx.audit(1000)]
    assert entries.count(("refuse-claim", "claim-unknown")) == 5
    assert entries.count(("refuse-claim", "claim-used")) == 1, "who has a claim is not drowned by who has none"
    assert ("create-claim", "none") in entries


def test_a_device_whose_last_certificate_ends_soon_is_counted_until_it_renews(house):
    for device in ("pi", "other"):
        house.enrolled(device)
    assert house.register.expiring(NOW_S, 10 * DAY_S) == 0
    house.clock.time_s += 85 * DAY_S
    house.signer.now_s = house.clock.time_s
    assert house.register.expiring(house.clock.time_s, 10 * DAY_S) == 2
    house.issuer.renew("pi", new_request()[1], "192.0.2.1")
    assert house.register.expiring(house.clock.time_s, 10 * DAY_S) == 1
    long_after_s = house.clock.time_s + 400 * DAY_S
    assert house.register.expiring(long_after_s, 10 * DAY_S) == 2, "the alert stays until they are back or forgotten"
    house.register.revoke("other", "test", house.clock.time_s)
    assert house.register.expiring(house.clock.time_s, 10 * DAY_S) == 0
    assert house.register.expiring(long_after_s, 10 * DAY_S) == 1
