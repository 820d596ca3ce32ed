"""A device that was off for longer than its certificate, whose identity is damaged or of another coordinator."""

import contextlib
import shutil
import sqlite3

import pytest
from cryptography import x509
from msgspec.structs import replace

from nightjar.coordinator.tls.authority import Authority
from nightjar.edge_agent.commands.doctor import examine
from nightjar.edge_agent.config import load
from nightjar.edge_agent.enrolment.enrolling import EnrolmentRefused, enrol, refreshed, refusal, renewed
from nightjar.edge_agent.enrolment.identity import (
    COPY,
    CREDENTIAL,
    FOLDER,
    IDENTITY,
    enrolled_tls,
    held_identity,
    keep,
    mend_identity,
)
from nightjar.host.put_away import in_short
from nightjar.host.system_clock import read_clock
from nightjar.host.trusted_time import in_utc
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.enrolment.world import Device, World

pytestmark = pytest.mark.broker
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), "embedded") as found:
        yield found


def now_s():
    return read_clock().wall_s


def off_for(world, device, days):
    """Put the device's certificate, and the coordinator's record of it, so many days back."""
    (key, _, _) = device.credential.partition(b"-----BEGIN CERTIFICATE")
    authority = Authority(world.config.data_dir / "authority")
    with contextlib.closing(sqlite3.connect(world.config.data_dir / "coordinator.sqlite")) as database, database:
        serial = str(x509.load_pem_x509_certificate(device.credential).serial_number)
        query = "SELECT csr FROM credentials WHERE serial = ?"
        ((csr,),) = database.execute(query, (serial,)).fetchall()
        made_s = now_s() - days * DAY_S
        certificate = authority.certify_device(csr, device.identity.device, 90.0, made_s)
        parsed = x509.load_pem_x509_certificate(certificate.encode())
        expires_s = parsed.not_valid_after_utc.timestamp()
        database.execute(
            "UPDATE credentials SET certificate = ?, serial = ?, expires_s = ?, requested_s = ? WHERE serial = ?",
            (certificate, str(parsed.serial_number), expires_s, made_s, serial),
        )
    identity = replace(device.identity, expires_s=expires_s, renew_s=expires_s - 30 * DAY_S)
    keep(device.data_dir, identity, key + certificate.encode())
    return expires_s


def test_a_device_that_was_off_for_a_year_renews_its_certificate_by_itself(world):
    device = world.enrolled("pi-drawer")
    ended_s = off_for(world, device, 365)
    with pytest.raises(UnavailableError):
        refreshed(device.data_dir, device.identity)
    assert f"ended on {in_utc(ended_s)}" in refusal(device.data_dir, now_s())
    assert renewed(device.data_dir, now_s())
    assert device.identity.expires_s > now_s()
    assert device.request("GET", "/api/v1/enrolment/self").status == 200
    assert refusal(device.data_dir, now_s()) == ""


def test_it_does_so_too_if_it_does_not_know_the_time(world):
    device = world.enrolled("pi-drawer-1970")
    off_for(world, device, 120)
    assert renewed(device.data_dir, None)
    assert device.request("GET", "/api/v1/enrolment/self").status == 200


def test_one_that_was_signed_years_ahead_is_renewed_at_the_next_look(world):
    """As by a coordinator that took a wrong time at its first start."""
    device = world.enrolled("pi-ahead")
    off_for(world, device, -7300)
    assert renewed(device.data_dir, now_s())
    assert device.identity.expires_s < now_s() + 91 * DAY_S
    assert device.request("GET", "/api/v1/enrolment/self").status == 200
    assert not renewed(device.data_dir, now_s())


@pytest.mark.parametrize("how", ["forgotten", "blocked", "too long", "stolen before a renewal", "another key"])
def test_nobody_else_gets_a_certificate_for_one_that_ended(world, how, tmp_path):
    name = f"pi-{how.replace(' ', '-')}"
    device = world.enrolled(name)
    if how == "stolen before a renewal":
        stolen = tmp_path / "stolen"
        off_for(world, device, 120)
        shutil.copytree(device.data_dir, stolen)
        assert renewed(device.data_dir, now_s())
        thief = Device(world, stolen)
    else:
        off_for(world, device, 1000 if how == "too long" else 120)
        thief = device
    if how == "forgotten":
        world.ask("POST", f"/devices/{name}/forget", {})
    if how == "blocked":
        world.ask("POST", f"/devices/{name}/block", {"reason": "stolen"})
    if how == "another key":
        other = world.enrolled("pi-thief")
        certificate = b"-----BEGIN CERTIFICATE" + device.credential.partition(b"-----BEGIN CERTIFICATE")[2]
        key = other.credential.partition(b"-----BEGIN CERTIFICATE")[0]
        identity = device.identity
        keep(other.data_dir, identity, key + certificate)
        with pytest.raises(ConfigError):  # it cannot even load the two
            renewed(other.data_dir, now_s())
        return
    with pytest.raises(EnrolmentRefused, match="new claim"):
        renewed(thief.data_dir, now_s())


# --- a new claim wins ---


def test_a_claim_wins_over_a_certificate_that_ended(world):
    device = world.enrolled("pi-ended")
    off_for(world, device, 1000)
    assert enrol(device.data_dir, world.claim("after-the-end", device="pi-ended")).anew
    assert device.request("GET", "/api/v1/enrolment/self").status == 200


@pytest.mark.parametrize("reachable", [True, False])
def test_a_claim_wins_over_an_identity_of_another_coordinator(world, tmp_path, reachable):
    with World(tmp_path, "embedded") as former:
        device = former.enrolled("pi-moved")
        if reachable:
            assert enrol(device.data_dir, world.claim(f"moved-{reachable}", device="pi-moved")).anew
    if not reachable:
        assert enrol(device.data_dir, world.claim(f"moved-{reachable}", device="pi-moved")).anew
    assert device.identity.coordinator_url == world.config.url
    assert Device(world, device.data_dir).request("GET", "/api/v1/enrolment/self").status == 200


DAMAGES = {"empty": lambda _: b"", "zeroed": lambda data: bytes(len(data)), "cut": lambda data: data[: len(data) // 2]}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", [IDENTITY, CREDENTIAL])
def test_a_claim_wins_over_a_damaged_identity_without_a_copy(world, name, kind):
    device = world.enrolled(f"pi-damaged-{name.split('.')[0]}-{kind}")
    folder = device.data_dir / FOLDER
    (folder / COPY).unlink()
    (folder / name).write_bytes(DAMAGES[kind]((folder / name).read_bytes()))
    with pytest.raises(ConfigError, match="new claim"):
        enrolled_tls(device.data_dir)
    who = device.data_dir.name
    assert enrol(device.data_dir, world.claim(f"again-{who}", device=who)).anew
    assert device.request("GET", "/api/v1/enrolment/self").status == 200


# --- a damaged identity mends itself ---


@pytest.fixture(scope="module")
def enrolled(world):
    return world.enrolled("pi-mended")


@pytest.fixture
def data_dir(enrolled, tmp_path):
    shutil.copytree(enrolled.data_dir, tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("kind", [*DAMAGES, "folder", "gone", "flipped"])
@pytest.mark.parametrize("name", [IDENTITY, CREDENTIAL, COPY])
def test_a_damaged_file_of_the_identity_is_put_away_and_the_device_goes_on(enrolled, data_dir, name, kind):
    path = data_dir / FOLDER / name
    before = path.read_bytes()
    if kind in DAMAGES:
        path.write_bytes(DAMAGES[kind](before))
    elif kind == "flipped":
        data = bytearray(before)
        data[-40] ^= 1  # within what still looks like an identity, or a certificate
        path.write_bytes(data)
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
    mend_identity(data_dir)
    assert path.read_bytes() == before
    assert held_identity(data_dir) == enrolled.identity
    assert Device(enrolled.world, data_dir).request("GET", "/api/v1/enrolment/self").status == 200
    if kind != "gone" and name != COPY:
        assert f"{name} was put away" in in_short(data_dir)


def test_a_device_that_an_agent_without_copies_enrolled_gets_one(enrolled, data_dir):
    copy = data_dir / FOLDER / COPY
    before = copy.read_bytes()
    copy.unlink()
    mend_identity(data_dir)
    assert copy.read_bytes() == before


def test_a_certificate_that_an_agent_without_copies_renewed_counts(enrolled, data_dir):
    path = data_dir / FOLDER / IDENTITY
    later = replace(enrolled.identity, expires_s=enrolled.identity.expires_s + 1)
    keep(data_dir, enrolled.identity, None)
    path.write_bytes(
        path.read_bytes().replace(str(enrolled.identity.expires_s).encode(), str(later.expires_s).encode())
    )
    credential = data_dir / FOLDER / CREDENTIAL
    credential.write_bytes(credential.read_bytes() + b"\n")  # another one
    mend_identity(data_dir)
    assert held_identity(data_dir).expires_s == later.expires_s
    path.write_bytes(b"")
    assert held_identity(data_dir).expires_s == later.expires_s


def test_a_damaged_date_is_no_renewal(enrolled, data_dir):
    path = data_dir / FOLDER / IDENTITY
    before = path.read_bytes()
    path.write_bytes(before.replace(str(enrolled.identity.expires_s).encode(), b"9e9"))
    assert path.read_bytes() != before
    mend_identity(data_dir)
    assert path.read_bytes() == before
    assert "identity.json was put away" in in_short(data_dir)


def test_doctor_names_the_date_of_a_certificate_that_ended(world, tmp_path):
    device = world.enrolled("pi-doctor")
    ended_s = off_for(world, device, 120)
    config = tmp_path / "agent.toml"
    config.write_text(f'data_dir = "{device.data_dir}"\n')
    found = [check for check in examine(load(config, {})) if check.category == "certificate"]
    assert in_utc(ended_s) in found[0].detail
