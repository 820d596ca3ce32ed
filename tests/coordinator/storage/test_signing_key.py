import stat

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nightjar.coordinator.storage.signing_key import (
    KEY_FILE,
    KEYS_FILE,
    change_key,
    load_signer,
    make_recovery_key,
    read_key,
)
from nightjar.host.files import replace_file
from nightjar.wire import topics
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.signatures import signed_bytes, succession_bytes
from tests.power_cut import assert_old_or_new, power_cut_library, recorded

TOPIC = topics.announce("demo")


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    first = load_signer(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data" / KEY_FILE).stat().st_mode) == 0o600
    again = load_signer(tmp_path / "data")
    assert (first.public, first.sign(TOPIC, "{}")) == (again.public, again.sign(TOPIC, "{}"))
    assert {path.name for path in (tmp_path / "data").iterdir()} == {KEY_FILE, KEYS_FILE}


def test_what_it_signs_holds_for_that_topic_and_text_only(tmp_path):
    signer = load_signer(tmp_path)
    key, signature = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public)), signer.sign(TOPIC, "{}")
    key.verify(bytes.fromhex(signature), signed_bytes(TOPIC, "{}"))
    for topic, text in ((TOPIC, "[]"), (topics.announce("other"), "{}")):
        with pytest.raises(InvalidSignature):
            key.verify(bytes.fromhex(signature), signed_bytes(topic, text))


def verified(step):
    said = succession_bytes("demo", step.signer, step.key, step.number)
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(step.signer)).verify(bytes.fromhex(step.signature), said)
    return step


def test_a_new_key_is_signed_by_the_one_before(tmp_path):
    first = load_signer(tmp_path)
    second = change_key(tmp_path, "demo", None, 5.0)
    third = change_key(tmp_path, "demo", None, 6.0)
    assert load_signer(tmp_path).public == third.public
    chain = [(verified(step).signer, step.key, step.number) for step in third.successions]
    assert chain == [(first.public, second.public, 0), (second.public, third.public, 0)]


def test_a_lost_key_is_not_made_anew_but_named_by_the_recovery_key(tmp_path):
    data, kept = tmp_path / "data", tmp_path / "recovery.pem"
    first = load_signer(data)
    recovery = make_recovery_key(data, kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert make_recovery_key(data, tmp_path / "another.pem") == ""
    assert load_signer(data).recovery == recovery
    (data / KEY_FILE).unlink()
    with pytest.raises(ConfigError, match=r"(?s)is missing, and devices know it.*--recovery"):
        load_signer(data)
    with pytest.raises(ConfigError, match="expected the recovery key"):
        change_key(data, "demo", Ed25519PrivateKey.generate(), 5.0)
    with pytest.raises(UnavailableError):
        change_key(data, "demo", None, 5.0)
    found = change_key(data, "demo", read_key(kept), 5.0)
    assert found.public != first.public
    [step] = found.successions
    assert (verified(step).signer, step.key, step.number) == (recovery, found.public, 5)
    assert change_key(data, "demo", read_key(kept), 5.0).successions[-1].number == 6


def test_a_recovery_key_is_enough_where_everything_else_is_lost(tmp_path):
    recovery = make_recovery_key(tmp_path / "old", tmp_path / "recovery.pem")
    found = change_key(tmp_path / "new", "demo", read_key(tmp_path / "recovery.pem"), 5.0)
    assert (found.recovery, verified(found.successions[0]).signer) == (recovery, recovery)


def test_a_key_from_before_the_last_change_is_refused(tmp_path):
    load_signer(tmp_path)
    old = (tmp_path / KEY_FILE).read_bytes()
    change_key(tmp_path, "demo", None, 5.0)
    (tmp_path / KEY_FILE).write_bytes(old)
    with pytest.raises(ConfigError, match="not the key that devices were told"):
        load_signer(tmp_path)


@pytest.mark.parametrize("steps", [1, 2], ids=["before it is said", "before it is in its place"])
def test_a_change_of_keys_that_was_cut_off_is_whole_or_was_none(tmp_path, monkeypatch, steps):
    before = load_signer(tmp_path).public
    left = iter(range(steps))

    def write(path, data, mode=0o600):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return replace_file(path, data, mode)

    monkeypatch.setattr("nightjar.coordinator.storage.signing_key.replace_file", write)
    monkeypatch.setattr(
        "nightjar.coordinator.storage.signing_key.load_signer", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        change_key(tmp_path, "demo", None, 5.0)
    monkeypatch.undo()
    after = load_signer(tmp_path)
    assert (after.public == before) == (steps == 1)
    assert [step.key for step in after.successions] == ([] if steps == 1 else [after.public])


def test_a_power_cut_at_each_step_leaves_a_whole_key_or_none(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    library = power_cut_library(tmp_path)
    before = "from nightjar.coordinator.storage.signing_key import load_signer"
    run = recorded(data, library, before, "load_signer(Path('.'))")
    assert_old_or_new(run, data / KEY_FILE)
    assert run.widest_modes() == 0o600


def test_a_key_that_others_may_read_is_refused(tmp_path):
    load_signer(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_signer(tmp_path)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_refused(tmp_path, content):
    path = tmp_path / KEY_FILE
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="no private key"):
        load_signer(tmp_path)


def test_another_kind_of_key_is_refused(tmp_path):
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / KEY_FILE).write_bytes(pem)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(ConfigError, match="expected a key of Ed25519"):
        load_signer(tmp_path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be read or made"):
        load_signer(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
