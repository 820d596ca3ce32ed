"""Any damage to any file of an enrolled device: it starts, is who it was, has spent what it had, and says so."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from nightjar.edge_agent.core.privacy_ledger import LOST
from nightjar.edge_agent.enrolment.identity import COPY, CREDENTIAL, IDENTITY, NEXT_KEY
from nightjar.edge_agent.enrolment.identity import FOLDER as OURS
from nightjar.edge_agent.shell.clock import FILE as CLOCK
from nightjar.edge_agent.shell.folder import DATABASE
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS, read_ledger
from nightjar.host.put_away import notes
from tests.edge_agent.any_damage import AS_BEFORE, FILES, KINDS, SPENT, damage, sound_device, start


@pytest.fixture(scope="module")
def sound():
    with sound_device() as folder:
        yield folder


def holds_after(sound, damages, seed):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "d"
        shutil.copytree(sound, folder)
        for file, kind in damages:
            with contextlib.suppress(OSError):  # what is above it was damaged before
                damage(folder, file, kind, seed)
        environment = {DATA_DIR_VARIABLE: str(folder / "data")}
        device, population, epsilon, spent = start(folder / "agent.toml", environment)
        names = {file for file, _ in damages}
        assert (device, population) == AS_BEFORE[:2]
        if "agent.toml" not in names:
            assert epsilon == 1.5
        kept = {entry.task: entry for entry in spent}
        assert LOST.task in kept or all(kept.get(entry.task) == entry for entry in SPENT)
        said = notes(folder / "data")
        start(folder / "agent.toml", environment)
        assert notes(folder / "data") == said, "the second start finds nothing new"
        assert read_ledger(folder / "data").entries == spent


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_every_kind_of_damage_to_each_file(sound, file):
    for kind in KINDS:
        holds_after(sound, [(file, kind)], 1)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("agent.toml", "fifo"),
        ("agent.toml", "link to itself"),
        (f"data/{OURS}/{IDENTITY}", "fifo"),
        (f"data/{OURS}/{CREDENTIAL}", "gone"),
        (f"data/{OURS}/{NEXT_KEY}", "full folder"),
        ("data/keyboard.key", "socket"),
        ("data/keyboard.port", "folder"),
        (f"data/{CLOCK}", "fifo"),
        (f"data/{DATABASE}", "future"),
        (f"data/{DATABASE}-wal", "other file"),
    ],
)
def test_one_file(sound, file, kind):
    holds_after(sound, [(file, kind)], 1)


IDENTITIES = [f"data/{OURS}/{name}" for name in (IDENTITY, CREDENTIAL, COPY)]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(FILES), st.sampled_from(KINDS)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_several_files(sound, damages, seed):
    names = {file for file, _ in damages}
    if IDENTITIES[2] in names and len(names & set(IDENTITIES)) > 1:
        damages = [each for each in damages if each[0] not in IDENTITIES[:2]]  # who it was is nowhere any more
    if {"agent.toml", f"data/{KEPT_SETTINGS}"} <= names:
        damages = [each for each in damages if each[0] != "agent.toml"]
    holds_after(sound, damages, seed)
