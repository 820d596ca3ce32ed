import pytest
from msgspec import structs

from coordinator.config import CoordinatorConfig, EnrolmentConfig, TaskConfig
from coordinator.enrolment.tls_files import (
    BROKER,
    BROKER_KEY,
    FOLDER,
    SERVER,
    SERVER_KEY,
    Changes,
    authority_names,
    names_of,
    refresh,
    revoked_serials,
    sign,
    url_for_devices,
)
from coordinator.web.tls_front import server_context
from tests.enrolment.in_this_process import InThisProcess

NOW_S, DAY_S = 1.7e9, 86400.0
NOTHING = Changes(server=False, authorities=False, revoked=False)


@pytest.fixture
def config(tmp_path):
    return CoordinatorConfig(task=TaskConfig(model=tmp_path), data_dir=tmp_path)


@pytest.fixture
def signer(tmp_path):
    return InThisProcess(tmp_path / "authority", NOW_S)


def test_what_is_up_to_date_is_left_alone(config, signer):
    assert refresh(config, signer, ["7"], NOW_S) == Changes(server=True, authorities=True, revoked=True)
    assert refresh(config, signer, ["7"], NOW_S) == NOTHING
    server_context(config.data_dir / FOLDER)  # key and certificate belong together
    assert {path.stat().st_mode & 0o777 for path in (config.data_dir / FOLDER).iterdir()} == {0o600}


def test_each_change_changes_what_it_must_and_no_more(config, signer):
    refresh(config, signer, [], NOW_S)
    assert refresh(config, signer, ["8", "70"], NOW_S) == Changes(server=False, authorities=False, revoked=True)
    assert revoked_serials(config.data_dir / FOLDER) == {"8", "70"}
    assert refresh(config, signer, [], NOW_S).revoked
    renamed = structs.replace(config, enrolment=EnrolmentConfig(names=("pi.local",)))
    assert refresh(renamed, signer, [], NOW_S) == Changes(server=True, authorities=False, revoked=False)
    assert refresh(renamed, signer, [], NOW_S + 300 * DAY_S) == Changes(server=True, authorities=False, revoked=False)


def test_a_rotation_changes_whom_we_trust_and_at_its_end_who_we_are(config, signer):
    refresh(config, signer, ["7"], NOW_S)
    signer.authority.rotate(NOW_S)
    assert refresh(config, signer, ["7"], NOW_S) == Changes(server=False, authorities=True, revoked=True)
    assert len(authority_names(config.data_dir / FOLDER)) == 2
    signer.authority.retire()
    assert refresh(config, signer, ["7"], NOW_S) == Changes(server=True, authorities=True, revoked=True)
    assert len(authority_names(config.data_dir / FOLDER)) == 1


@pytest.mark.parametrize("lost", [SERVER, SERVER_KEY, BROKER, BROKER_KEY])
def test_a_certificate_without_its_key_is_made_anew(config, signer, lost):
    refresh(config, signer, [], NOW_S)
    folder = config.data_dir / FOLDER
    (folder / lost).unlink()
    assert refresh(config, signer, [], NOW_S).server
    other = InThisProcess(config.data_dir / "other", NOW_S)
    elsewhere = structs.replace(config, data_dir=config.data_dir / "elsewhere")
    refresh(elsewhere, other, [], NOW_S)
    (folder / SERVER_KEY).write_bytes((elsewhere.data_dir / FOLDER / SERVER_KEY).read_bytes())
    assert refresh(config, signer, [], NOW_S).server
    server_context(folder)


def test_devices_find_us_by_the_first_of_our_names(config):
    named = structs.replace(
        config, enrolment=EnrolmentConfig(names=("pi.local", "192.0.2.7")), host="0.0.0.0", port=8443
    )
    assert names_of(named)[:2] == ["pi.local", "192.0.2.7"]
    assert url_for_devices(named) == "https://pi.local:8443"
    assert url_for_devices(config) == "https://127.0.0.1:8080"
    six = structs.replace(named, enrolment=EnrolmentConfig(names=("2001:db8::1",)))
    assert url_for_devices(six) == "https://[2001:db8::1]:8443"


def test_64_000_revoked_certificates_are_listed(config, signer):
    serials = [str((1 << 158) + number) for number in range(64_000)]
    refresh(config, signer, (), NOW_S)
    assert sign(config, signer, serials, NOW_S).revoked
    assert not sign(config, signer, serials, NOW_S)
    assert revoked_serials(config.data_dir / FOLDER) == set(serials)
