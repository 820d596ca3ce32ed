"""The agent's process computes no program that neither came with it nor was signed by its owner."""

import contextlib
import hashlib

import pytest
from msgspec.structs import replace

from nightjar.models.manifest import Artifact
from nightjar.models.signed_programs import PROGRAMS_PATH
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.messages import DropoutCause
from tests.edge_agent.fakes import assignment
from tests.edge_agent.shell.test_owned_programs import COORDINATOR, OWNER, public, signed
from tests.edge_agent.test_agent_process import world  # noqa: F401 - the fixture

REFUSED = "neither comes with this agent nor is signed by the device's owner"
pytestmark = [pytest.mark.broker, pytest.mark.tflite]


@contextlib.contextmanager
def another_program(exported):
    """Serves a program that works, and is none of the agent's; yields its manifest."""
    data = exported.artifacts[exported.model.manifest.program.sha256] + bytes(8)
    program = Artifact(hashlib.sha256(data).hexdigest(), len(data))
    ours = exported.model.manifest
    words = exported.artifacts[ours.vocabulary.sha256]
    # Only a packaged program may have more word ids than words.
    lacking = ours.vocabulary_size - Vocabulary.from_bytes(words).size
    words += "".join(f"filler{number}\n" for number in range(lacking)).encode()
    vocabulary = Artifact(hashlib.sha256(words).hexdigest(), len(words))
    manifest = replace(ours, program=program, vocabulary=vocabulary)
    added = {program.sha256: data, vocabulary.sha256: words, manifest.sha256: manifest.encode()}
    exported.artifacts.update(added)
    try:
        yield manifest
    finally:
        for name in (*added, f"{PROGRAMS_PATH}{program.sha256}"):
            exported.artifacts.pop(name, None)


@pytest.mark.parametrize("signer", [None, COORDINATOR, OWNER], ids=["nobody", "the coordinator", "the owner"])
def test_a_program_is_computed_only_if_the_owner_signed_it(world, signer):  # noqa: F811 - the fixture
    coordinator, make, exported, _ = world
    agent = make().day()
    agent.config.write_text(f'owner_key = "{public(OWNER)}"\n{agent.config.read_text()}')
    with another_program(exported) as manifest:
        if signer is not None:
            exported.artifacts[f"{PROGRAMS_PATH}{manifest.program.sha256}"] = signed(manifest, signer)
        agent.start()
        coordinator.next("check-in")
        coordinator.say("phone", assignment(exported.model, manifest=manifest.sha256, report_deadline_s=600.0))
        got = coordinator.next("report", "dropout")
    outcome = "report" if isinstance(got, bytes) else (got.cause, REFUSED in got.detail)
    assert outcome == ("report" if signer is OWNER else (DropoutCause.UNTRUSTED, True))
