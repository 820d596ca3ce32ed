"""The owner signs what devices may compute, as on the command line."""

import pytest

from nightjar.edge_agent.core.owners import owner_in
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.firmware_scripts.__main__ import run
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.program_signing import public_hex
from nightjar.models.folder import MANIFEST, PROGRAM
from nightjar.models.manifest import Manifest
from nightjar.models.signed_programs import SIGNATURE_FILE, SignedProgram, statement
from tests.coordinator.model_folder import write_model


def sign(keys, model, status=0):
    assert run(["keys", "sign", str(keys), str(model)]) == status
    return SignedProgram.decode((model / SIGNATURE_FILE).read_bytes()) if status == 0 else None


def test_one_command_makes_a_key_once_and_signs(tmp_path, capsys):
    model = tmp_path / "model"
    write_model(model)
    first = sign(tmp_path / "owner", model)
    (each,) = first.signatures
    key = load_private_key(tmp_path / "owner/keys/owner-1a.key")
    assert each.key == public_hex(key)
    assert each.key in capsys.readouterr().out
    assert signature_valid(each.key, each.signature, statement(Manifest.decode((model / MANIFEST).read_bytes())))
    assert sign(tmp_path / "owner", model) == first


def test_keys_of_releases_sign_and_several_keepers_do_in_turn(tmp_path):
    model, keys = tmp_path / "model", tmp_path / "tuf"
    write_model(model)
    assert run(["keys", "init", str(keys), "--root", "1/1", "--targets", "2/2"]) == 0
    owner = owner_in((keys / "metadata/1.root.json").read_bytes())
    (keys / "keys/targets-1b.key").rename(tmp_path / "targets-1b.key")
    assert not owner.agrees([each.key for each in sign(keys, model).signatures])
    (keys / "keys/targets-1a.key").unlink()
    (tmp_path / "targets-1b.key").rename(keys / "keys/targets-1b.key")
    assert owner.agrees([each.key for each in sign(keys, model).signatures])
    write_model(model, hidden=7)  # another model's signatures are not kept
    assert len(sign(keys, model).signatures) == 1


@pytest.mark.parametrize("damage", ["no folder", "another program", "no key"])
def test_what_cannot_be_signed_is_said(tmp_path, capsys, damage):
    model, keys = tmp_path / "model", tmp_path / "owner"
    if damage != "no folder":
        write_model(model)
    if damage == "another program":
        (model / PROGRAM).write_bytes(b"another")
    if damage == "no key":
        (keys / "keys").mkdir(parents=True)
        (keys / "keys/owner-1a.key").write_text("no key")
        (keys / "keys/owner-1a.key").chmod(0o600)
    sign(keys, model, status=2)
    said = capsys.readouterr().err
    assert {"no folder": "models export", "another program": "export the model again", "no key": "private key"}[
        damage
    ] in said
