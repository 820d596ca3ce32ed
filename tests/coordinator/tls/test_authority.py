import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nightjar.coordinator.tls.authority import CURRENT, FORMER, Authority, fingerprint, new_request
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from tests.power_cut import assert_old_or_new, power_cut_library, recorded

NOW_S, DAY_S = 1.7e9, 86400.0


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


def read(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def request_with(key, subject="root", **extension) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("coordinator")]), critical=False)
    signed = builder.sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def test_nothing_of_a_request_counts_but_its_key(authority):
    key = ec.generate_private_key(ec.SECP256R1())
    made = read(authority.certify_device(request_with(key), "pi", 90, NOW_S))
    assert made.public_key() == key.public_key()
    assert [each.value for each in made.subject] == ["pi"]
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    with pytest.raises(x509.ExtensionNotFound):
        made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert made.not_valid_after_utc.timestamp() == NOW_S + 90 * DAY_S


def test_a_servers_certificate_is_for_servers_and_has_its_names(authority):
    made = read(authority.certify_server(new_request()[1], ["pi.local", "192.0.2.7"], 30, NOW_S))
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["pi.local", "192.0.2.7"]


def forged() -> str:
    pem = request_with(ec.generate_private_key(ec.SECP256R1()))
    der = bytearray(x509.load_pem_x509_csr(pem.encode()).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    request = x509.load_der_x509_csr(bytes(der))
    return request.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize(
    "csr",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 5000, id="large"),
        pytest.param("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", id="none"),
        pytest.param(request_with(rsa.generate_private_key(65537, 2048)), id="RSA"),
        pytest.param(request_with(ec.generate_private_key(ec.SECP384R1())), id="another curve"),
        pytest.param(forged(), id="not signed with its key"),
    ],
)
def test_what_is_no_request_with_a_p256_key_is_refused(authority, csr):
    with pytest.raises(RemoteProtocolError) as raised:
        authority.certify_device(csr, "pi", 90, NOW_S)
    assert raised.value.code == "csr"


def test_the_key_is_its_owners_alone_and_the_same_after_a_restart(tmp_path, authority):
    assert (tmp_path / "authority" / CURRENT).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "authority").stat().st_mode & 0o777 == 0o700
    assert Authority(tmp_path / "authority").certificates() == authority.certificates()


@pytest.mark.parametrize("now_s", [0.0, NOW_S, NOW_S + 7300 * DAY_S])
def test_what_is_signed_by_a_wrong_clock_is_valid_from_the_beginning_and_the_authority_for_ever(authority, now_s):
    """Proven before: an authority that was made in 1970 had ended, and one that was made in 2046 had not begun."""
    made = authority.certify_device(new_request()[1], "pi", 90, now_s)
    listed = x509.load_pem_x509_crl(authority.revocations([5])[0].encode())
    (ours,) = map(read, authority.certificates())
    begins = {read(made).not_valid_before_utc, ours.not_valid_before_utc, listed.last_update_utc}
    assert [each.timestamp() for each in begins] == [0.0]
    assert {ours.not_valid_after_utc.year, listed.next_update_utc.year} == {9999}


def test_a_key_that_others_can_read_is_not_used(tmp_path, authority):
    (tmp_path / "authority" / CURRENT).chmod(0o640)
    with pytest.raises(ConfigError, match="0640"):
        Authority(tmp_path / "authority")


def test_a_file_that_is_no_key_is_said(tmp_path):
    (tmp_path / CURRENT).touch(mode=0o600)
    with pytest.raises(ConfigError, match="expected a key"):
        Authority(tmp_path)


def test_what_is_revoked_stands_in_the_list_of_each_authority(authority):
    authority.rotate()
    for pem in authority.revocations([5, 3]):
        found = x509.load_pem_x509_crl(pem.encode())
        assert sorted(each.serial_number for each in found) == [3, 5]


def issuer_of(pem: str) -> x509.Name:
    return read(pem).issuer


def test_in_a_rotation_the_new_authority_signs_devices_and_the_former_one_servers(authority):
    (before,) = authority.certificates()
    authority.rotate()
    former, current = authority.certificates()
    assert former == before
    assert fingerprint(current) != fingerprint(before)
    csr = new_request()[1]
    assert issuer_of(authority.certify_server(csr, ["a"], 1, NOW_S)) == read(former).subject
    assert issuer_of(authority.certify_device(csr, "a", 1, NOW_S)) == read(current).subject
    with pytest.raises(ConfigError, match="not finished"):
        authority.rotate()
    authority.retire()
    assert authority.certificates() == [current]
    assert issuer_of(authority.certify_server(csr, ["a"], 1, NOW_S)) == read(current).subject
    with pytest.raises(ConfigError, match="no former"):
        authority.retire()


def test_a_rotation_that_loses_power_after_its_first_file_is_begun_again(tmp_path, authority):
    folder = tmp_path / "authority"
    (folder / FORMER).write_bytes((folder / CURRENT).read_bytes())
    (folder / FORMER).chmod(0o600)
    again = Authority(folder)
    assert not again.rotating  # two files of one authority are no rotation
    again.rotate()
    assert len(set(again.certificates())) == 2


def test_a_power_cut_at_each_step_leaves_a_whole_key_or_none(tmp_path):
    folder = tmp_path / "authority"
    folder.mkdir(mode=0o700)
    before = "from nightjar.coordinator.tls.authority import Authority"
    run = recorded(folder, power_cut_library(tmp_path), before, "Authority(Path('.'))")
    assert_old_or_new(run, folder / CURRENT)
    assert run.widest_modes() == 0o600


def test_a_list_takes_time_in_proportion_to_its_length(tmp_path):
    """Proven before: 4.7 s of processor time for 64,000 lines, 36 times that for 8,000."""
    authority = Authority(tmp_path / "a")

    def took_s(lines: int) -> float:
        begun_s = time.process_time()
        authority.revocations([(1 << 158) + number for number in range(lines)])
        return time.process_time() - begun_s

    assert took_s(64_000) < 2 * 8 * min(took_s(8_000) for _ in range(3))
