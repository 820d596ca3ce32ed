import stat

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from coordinator.shell.signing import KEY_FILE, load_signer
from tests.power_cut import assert_old_or_new, power_cut_library, recorded
from wire.errors import ConfigError, UnavailableError
from wire.signatures import signed_bytes

MANIFEST, OTHER = "a" * 64, "b" * 64


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    first = load_signer(tmp_path / "data", "demo")
    assert stat.S_IMODE((tmp_path / "data" / KEY_FILE).stat().st_mode) == 0o600
    again = load_signer(tmp_path / "data", "demo")
    assert (first.public, first.sign(MANIFEST)) == (again.public, again.sign(MANIFEST))
    assert [path.name for path in (tmp_path / "data").iterdir()] == [KEY_FILE]


def test_what_it_signs_holds_for_that_manifest_and_population_only(tmp_path):
    signer = load_signer(tmp_path, "demo")
    key, signature = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public)), signer.sign(MANIFEST)
    key.verify(bytes.fromhex(signature), signed_bytes("demo", MANIFEST))
    for population, manifest in (("demo", OTHER), ("other", MANIFEST)):
        with pytest.raises(InvalidSignature):
            key.verify(bytes.fromhex(signature), signed_bytes(population, manifest))


def test_a_power_cut_at_each_step_leaves_a_whole_key_or_none(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    library = power_cut_library(tmp_path)
    before = "from coordinator.shell.signing import load_signer"
    run = recorded(data, library, before, "load_signer(Path('.'), 'demo')")
    assert_old_or_new(run, data / KEY_FILE)
    assert run.widest_modes() == 0o600


def test_a_key_that_others_may_read_is_refused(tmp_path):
    load_signer(tmp_path, "demo")
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_signer(tmp_path, "demo")


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_refused(tmp_path, content):
    path = tmp_path / KEY_FILE
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="no private key"):
        load_signer(tmp_path, "demo")


def test_another_kind_of_key_is_refused(tmp_path):
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / KEY_FILE).write_bytes(pem)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(ConfigError, match="expected a key of Ed25519"):
        load_signer(tmp_path, "demo")


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be read or made"):
        load_signer(tmp_path / "file", "demo")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
