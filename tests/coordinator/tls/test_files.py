import pytest
from msgspec import structs

from nightjar.coordinator.config import CoordinatorConfig, EnrolmentConfig, TaskConfig
from nightjar.coordinator.tls.contexts import FOLDER, server_context
from nightjar.coordinator.tls.files import (
    SERVER_FOLDER,
    Changes,
    authority_names,
    broker_pair,
    coordinator_pair,
    names_of,
    refresh,
    revoked_serials,
    sign,
    url_for_devices,
)
from nightjar.wire.errors import ConfigError
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
    folder = config.data_dir / FOLDER
    server_context(folder, *coordinator_pair(folder))  # key and certificate belong together
    private = [*folder.iterdir(), *(config.data_dir / SERVER_FOLDER).iterdir()]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


def test_the_folder_that_a_broker_reads_has_no_key_but_its_own(config, signer):
    folder = config.data_dir / FOLDER
    refresh(config, signer, [], NOW_S)
    assert [path.name for path in folder.iterdir() if b"PRIVATE KEY" in path.read_bytes()] == ["broker.key"]


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
    signer.authority.rotate()
    assert refresh(config, signer, ["7"], NOW_S) == Changes(server=False, authorities=True, revoked=True)
    assert len(authority_names(config.data_dir / FOLDER)) == 2
    signer.authority.retire()
    assert refresh(config, signer, ["7"], NOW_S) == Changes(server=True, authorities=True, revoked=True)
    assert len(authority_names(config.data_dir / FOLDER)) == 1


@pytest.mark.parametrize("pair_of", [coordinator_pair, broker_pair])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_certificate_without_its_key_is_made_anew(config, signer, pair_of, lost):
    refresh(config, signer, [], NOW_S)
    folder = config.data_dir / FOLDER
    pair_of(folder)[lost].unlink()
    assert refresh(config, signer, [], NOW_S).server
    other = InThisProcess(config.data_dir / "other/authority", NOW_S)
    elsewhere = structs.replace(config, data_dir=config.data_dir / "elsewhere")
    refresh(elsewhere, other, [], NOW_S)
    coordinator_pair(folder)[1].write_bytes(coordinator_pair(elsewhere.data_dir / FOLDER)[1].read_bytes())
    assert refresh(config, signer, [], NOW_S).server
    server_context(folder, *coordinator_pair(folder))


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


def test_a_certificate_from_the_future_is_replaced_as_soon_as_the_clock_is_right(config, tmp_path):
    ahead_s = NOW_S + 250 * DAY_S
    authority = InThisProcess(tmp_path / "authority", NOW_S)
    authority.now_s = ahead_s
    refresh(config, authority, [], ahead_s)
    authority.now_s = NOW_S
    assert sign(config, authority, [], NOW_S).server, "no handshake would succeed for 250 days"
    assert sign(config, authority, [], NOW_S) == NOTHING


def test_while_the_clock_is_not_trusted_nothing_is_signed(config, signer):
    refresh(config, signer, [], NOW_S)
    assert refresh(config, signer, ["8"], NOW_S + 300 * DAY_S, "the clock is ahead") == NOTHING
    assert (config.data_dir / FOLDER / "refused").read_text() == "8\n", "who is revoked is refused all the same"


def test_a_first_start_with_a_clock_that_is_not_trusted_says_what_to_do(config, signer):
    with pytest.raises(ConfigError, match="the clock is ahead"):
        refresh(config, signer, [], NOW_S, "the clock is ahead")
