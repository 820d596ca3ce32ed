"""Certificates of a year follow the product's rules, by the clocks of both sides."""

import pytest

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.simulation.year.identity import CertificateOffice, DeviceCertificate
from nightjar.simulation.year.task import year_task
from nightjar.wire.identifiers import DeviceId

DAY_S = 86_400.0
DEVICE = DeviceId("phone-000001")


class Clock:
    def __init__(self):
        self.seconds = 1.7e9

    def now_s(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def office(tmp_path, clock):
    config = CoordinatorConfig(task=year_task(), data_dir=tmp_path / "coordinator")
    config.data_dir.mkdir()
    database = Database(database_url(config))
    yield CertificateOffice(config, lambda: database, clock)
    database.close()


@pytest.fixture
def certificate(tmp_path, office):
    made = DeviceCertificate(tmp_path / "device", office)
    made.enrol(DEVICE)
    return made


def admitted(certificate, clock, wall_s=None):
    return certificate.admitted(clock.seconds if wall_s is None else wall_s, clock.seconds)


def test_an_enrolled_device_is_let_in_and_renews_after_two_thirds(certificate, clock):
    assert admitted(certificate, clock)
    first = certificate.serial
    clock.seconds += 59 * DAY_S
    certificate.renew_if_due(clock.seconds)
    assert certificate.serial == first
    clock.seconds += 2 * DAY_S
    certificate.renew_if_due(clock.seconds)
    assert certificate.serial != first
    assert admitted(certificate, clock)


def test_a_certificate_that_ended_in_a_drawer_is_renewed_by_its_key(certificate, office, clock):
    assert admitted(certificate, clock)
    clock.seconds += 120 * DAY_S
    office.refresh()
    assert not admitted(certificate, clock)
    certificate.renew_if_due(None)
    assert not admitted(certificate, clock)
    certificate.renew_if_due(clock.seconds)
    assert admitted(certificate, clock)
    assert certificate.renewed_late == 1


def test_a_revoked_device_is_not_let_in_until_a_new_claim(certificate, office, clock):
    assert admitted(certificate, clock)
    office.revoke(DEVICE)
    certificate.renew_if_due(clock.seconds + 80 * DAY_S)
    assert not admitted(certificate, clock)
    certificate.enrol(DEVICE)
    assert admitted(certificate, clock)


@pytest.mark.parametrize(("off_days", "accepts"), [(-365, True), (20 * 365, False)])
def test_a_device_whose_clock_is_ahead_finds_that_the_coordinators_certificate_has_ended(
    certificate, clock, off_days, accepts
):
    assert admitted(certificate, clock, clock.seconds + off_days * DAY_S) is accepts


def test_a_renewal_of_the_authority_takes_every_device_along(certificate, office, clock):
    assert admitted(certificate, clock)
    office.rotate()
    certificate.renew_if_due(clock.seconds)
    office.retire()
    assert admitted(certificate, clock)


def test_a_device_that_missed_the_renewal_of_the_authority_is_not_let_in(certificate, office, clock):
    assert admitted(certificate, clock)
    office.rotate()
    office.retire()
    certificate.renew_if_due(clock.seconds)
    assert not admitted(certificate, clock)
