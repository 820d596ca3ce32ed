"""A coordinator sends a program that reports the typed words: the real trainer, codec and limits would send them."""

import contextlib

import numpy as np
import pytest

from nightjar.edge_agent.core.owners import ProgramOwner
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.session.task import SessionTask
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.owned_programs import OwnedPrograms
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.folder import write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.source import Source
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.limits import Limits, outside
from nightjar.wire.messages import CodecChoice, TrainingPlan
from tests.edge_agent.fakes import any_program, assignment
from tests.edge_agent.shell.test_model_files import FolderDownloader
from tests.edge_agent.shell.test_owned_programs import COORDINATOR, OWNER, Served, public, signed

pytestmark = [pytest.mark.tensorflow, pytest.mark.tflite, pytest.mark.slow]

SHAPE = ModelConfiguration("tiny", max_vocabulary=2_000, embedding=64, hidden=128, batch_rows=2, sequence_length=8)
VOCABULARY = Vocabulary(("my", "pin", "is", "four", "two", "call", "the", "doctor", *(f"w{n}" for n in range(300))))
TYPED = ["my pin is four two", "call the doctor"]
CODEC = CodecChoice(density=0.02)
PLAN = TrainingPlan(learning_rate=1.0, clip_norm=1.0)


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """What the coordinator serves."""
    from nightjar.benchmarks.attack.crafted_program import crafted_program

    folder = tmp_path_factory.mktemp("crafted")
    weights = initial_weights(SHAPE, VOCABULARY.size, 1)
    program = crafted_program(SHAPE, VOCABULARY.size)
    manifest = write_model_folder(folder / "model", SHAPE, VOCABULARY, program, weights)
    names = {"program": "program.tflite", "weights": "weights.bin", "vocabulary": "vocabulary.txt"}
    for part, name in names.items():
        (folder / getattr(manifest, part).sha256).write_bytes((folder / "model" / name).read_bytes())
    (folder / manifest.sha256).write_bytes(manifest.encode())
    return folder, manifest


def reported(tmp_path, remote, check):
    """The words that the report of a device gives away."""
    from nightjar.benchmarks.attack.crafted_program import read_ids

    folder, manifest = remote
    assert outside(Limits(), 10, CODEC, PLAN.max_steps, None, None) == []
    model = ModelFiles(tmp_path / "a", FolderDownloader(folder), check).fetch(manifest.sha256, lambda: False)
    task = SessionTask(assignment(model, codec=CODEC, plan=PLAN), model, Source(TYPED), seed=3)
    made = in_this_process(load_program, lambda: 0.0)(task, lambda: False)
    update = codec_for(CODEC).decode(frame.decode(made.report.frame).payload, manifest.layout).dense()
    return [list(map(VOCABULARY.word, row)) for row in read_ids(np.asarray(update), SHAPE, VOCABULARY.size)]


def test_without_the_check_the_report_would_hold_what_was_typed(tmp_path, remote):
    rows = reported(tmp_path, remote, any_program)
    text = " ".join(" ".join(row) for row in rows)
    assert all(sentence in text for sentence in TYPED)


def test_a_program_that_reports_what_was_typed_is_refused_whoever_but_the_owner_signed_it(tmp_path, remote):
    (tmp_path / "a").mkdir()
    served = Served(signed(remote[1], COORDINATOR))
    check = OwnedPrograms(tmp_path / "a", served, [ProgramOwner(frozenset({public(OWNER)}))], signature_valid)
    read = []
    with contextlib.suppress(RemoteProtocolError):
        read = reported(tmp_path, remote, check)
    assert read == []
