"""Which programs a device computes: those of its release, and those that its owner signed."""

import ast
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from nightjar.edge_agent.core.owners import ProgramOwner, owner_in
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.owned_programs import SIGNED, OwnedPrograms, no_document
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.models.manifest import Artifact
from nightjar.models.packaged import PACKAGED
from nightjar.models.signed_programs import PROGRAMS_PATH, OwnerSignature, SignedProgram, statement
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from tests.edge_agent.fakes import Phone, write_model
from tests.edge_agent.shell.test_model_files import FolderDownloader

ROOT = Path(__file__).parents[3]
OWNER, OTHER, COORDINATOR = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3))


def public(key):
    return key.public_key().public_bytes_raw().hex()


def signed(manifest, *keys, over=None):
    stated = statement(manifest if over is None else over)
    made = (OwnerSignature(public(key), key.sign(stated).hex()) for key in keys)
    return SignedProgram(manifest.program.sha256, tuple(made)).encode()


class Served:
    """What a coordinator serves."""

    def __init__(self, document=None):
        self.document, self.asked = document, []

    def __call__(self, path, most_bytes):
        self.asked.append(path)
        if isinstance(self.document, Exception):
            raise self.document
        if self.document is None:
            return no_document(path, most_bytes)
        return self.document


@pytest.fixture
def manifest(tmp_path):
    return write_model(tmp_path / "model").manifest


def programs(folder, served, *owners):
    folder.mkdir(exist_ok=True)
    return OwnedPrograms(folder, served, owners, signature_valid)


def owner(*keys, threshold=1):
    return ProgramOwner(frozenset(map(public, keys)), threshold)


def test_what_the_owner_signed_passes_once_fetched_and_later_without_a_network(tmp_path, manifest):
    served = Served(signed(manifest, OTHER, OWNER))
    check = programs(tmp_path / "a", served, owner(OWNER))
    check(manifest)
    check(replace(manifest, version=7, weights=Artifact("0" * 64, 9)))  # another version of the same model
    assert served.asked == [f"{PROGRAMS_PATH}{manifest.program.sha256}"]
    programs(tmp_path / "a", no_document, owner(OWNER))(manifest)


@pytest.mark.parametrize(
    "document",
    [
        None,
        b"",
        b"{}",
        b"[" * 20_000,
        b"x" * 20_000,
        lambda m: signed(m, COORDINATOR),
        lambda m: signed(m, OTHER, COORDINATOR),
        lambda m: signed(m, OWNER, over=replace(m, program=Artifact("9" * 64, 1))),
        lambda m: signed(m, OWNER, over=replace(m, task_type="other")),
        lambda m: signed(m, OWNER, over=replace(m, batch_rows=m.batch_rows + 1)),
        lambda m: signed(m, OWNER, over=replace(m, hidden=m.hidden + 1)),
        lambda m: signed(m, OTHER).replace(public(OTHER).encode(), public(OWNER).encode()),
    ],
    ids=[
        "none",
        "empty",
        "object",
        "deep",
        "long",
        "coordinator",
        "two-others",
        "program",
        "type",
        "rows",
        "hidden",
        "name",
    ],
)
def test_nothing_else_passes(tmp_path, manifest, document):
    served = Served(document(manifest) if callable(document) else document)
    refused = None
    try:
        programs(tmp_path / "a", served, owner(OWNER))(manifest)
    except RemoteProtocolError as error:
        refused = (error.code, "sign" in str(error))
    assert (refused, list((tmp_path / "a").iterdir())) == (("unsigned-program", True), [])


def test_a_device_that_knows_no_owner_says_what_to_do_and_asks_nobody(tmp_path, manifest):
    served = Served(signed(manifest, COORDINATOR))
    with pytest.raises(RemoteProtocolError, match="set owner_key, or enrol with a claim"):
        programs(tmp_path / "a", served)(manifest)
    assert served.asked == []


def test_a_release_may_need_several_keys(tmp_path, manifest):
    both = owner(OWNER, OTHER, threshold=2)
    with pytest.raises(RemoteProtocolError):
        programs(tmp_path / "a", Served(signed(manifest, OWNER, OWNER)), both)(manifest)
    programs(tmp_path / "a", Served(signed(manifest, OWNER, OTHER)), both)(manifest)


def test_a_coordinator_that_does_not_answer_is_asked_again_later(tmp_path, manifest):
    with pytest.raises(UnavailableError):
        programs(tmp_path / "a", Served(UnavailableError("down")), owner(OWNER))(manifest)


def test_signatures_that_the_card_damaged_are_fetched_again(tmp_path, manifest):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"{manifest.program.sha256}{SIGNED}").write_bytes(b"dam")
    programs(tmp_path / "a", Served(signed(manifest, OWNER)), owner(OWNER))(manifest)


def test_a_program_that_may_not_run_is_not_even_fetched(tmp_path):
    remote = tmp_path / "remote"
    model = write_model(remote)
    downloader = FolderDownloader(remote)
    files = ModelFiles(tmp_path / "a", downloader, programs(tmp_path / "a", no_document, owner(OWNER)))
    with pytest.raises(RemoteProtocolError) as refused:
        files.fetch(model.sha256, lambda: False)
    assert refused.value.code == "unsigned-program"
    assert downloader.asked == [model.sha256]


def test_the_coordinator_and_the_owner_are_told(tmp_path):
    phone = Phone(tmp_path)

    def refuse(_manifest, _should_stop):
        raise RemoteProtocolError("program 123 is not signed by the device's owner", code="unsigned-program")

    phone.artifacts.fetch = refuse
    phone.check_in()
    phone.be_assigned()
    phone.work()
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause.value == "untrusted"
    assert dropout.detail == "program 123 is not signed by the device's owner"
    assert phone.trust.told == [dropout.detail]


def test_a_program_that_nobody_checked_is_not_loaded(tmp_path):
    with pytest.raises(RemoteProtocolError) as refused:
        load_program(write_model(tmp_path))
    assert refused.value.code == "unsigned-program"


def test_a_file_that_was_exchanged_after_the_check_is_not_loaded(tmp_path):
    """The name and the manifest are those of a packaged program, the content is not."""
    model = write_model(tmp_path)
    known = PACKAGED[0]
    object.__setattr__(model, "manifest", replace(model.manifest, program=Artifact(known.sha256, 7)))
    object.__setattr__(model, "program_signed", True)
    with pytest.raises(RemoteProtocolError, match="got another"):
        load_program(model)


def test_the_owner_of_a_release_is_who_signs_its_targets():
    text = b"""{"signatures": [], "signed": {"_type": "root", "keys": {
        "1": {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": "aa"}},
        "2": {"keytype": "rsa", "scheme": "x", "keyval": {"public": "bb"}},
        "3": {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": "cc"}}},
        "roles": {"root": {"keyids": ["3"], "threshold": 1}, "targets": {"keyids": ["1", "2"], "threshold": 1}}}}"""
    assert owner_in(text) == ProgramOwner(frozenset({"aa"}), 1)
    for other in (b"", b"{}", b"[" * 9999, text.replace(b'"targets"', b'"other"'), text.replace(b": 1}}", b": 0}}")):
        assert owner_in(other) is None


def test_one_function_of_the_device_gives_a_file_to_an_interpreter():
    """Training, evaluation, personal weights, task types and commands all load a program there, after the check."""
    interpreters, loads = set(), set()
    for path in (ROOT / "edge_agent").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for inside in ast.walk(tree):
            if isinstance(inside, ast.Attribute | ast.Name):
                name = inside.attr if isinstance(inside, ast.Attribute) else inside.id
                if name == "Interpreter":
                    interpreters.add(path.name)
            if isinstance(inside, ast.Call) and getattr(inside.func, "id", "") == "TfliteProgram":
                loads.add(path.name)
    assert interpreters == loads == {"tflite.py"}
