"""An enrolled device that can be damaged in any file, and what it does at its start."""

import contextlib
import hashlib
import os
import random
import shutil
import socket
import tempfile
from pathlib import Path

from msgspec.structs import replace

from nightjar.edge_agent import assembly
from nightjar.edge_agent.commands.status import status
from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from nightjar.edge_agent.core.lifecycle import STARTING
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.stored import Change
from nightjar.edge_agent.enrolment.identity import COPY, CREDENTIAL, IDENTITY, NEXT_KEY, enrolled_tls, keep
from nightjar.edge_agent.enrolment.identity import FOLDER as OURS
from nightjar.edge_agent.enrolment.keys import next_key
from nightjar.edge_agent.kept_settings import settings_of
from nightjar.edge_agent.keyboard.key import kept_key, note_port, served_port
from nightjar.edge_agent.shell import message_store
from nightjar.edge_agent.shell.card_use import FILE as WRITTEN
from nightjar.edge_agent.shell.card_use import CardUse
from nightjar.edge_agent.shell.clock import FILE as CLOCK
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import ARTIFACTS, DATABASE, LOCK, TYPED
from nightjar.edge_agent.shell.http import Downloader
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS, LEDGER
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.owned_programs import no_document
from nightjar.edge_agent.shell.suggester import local_listener
from nightjar.host.put_away import FOLDER as PUT_AWAY
from nightjar.host.put_away import notes
from nightjar.wire.messages import PrivacyTerms
from tests.deploy.certificates import write_certificate
from tests.edge_agent.enrolment.test_identity import HELD

TEXT = 'population = "home"\n[limits]\nepsilon = 1.5\n[conditions]\npoll_s = 0.5\n'
TERMS = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)
SPENT = [LedgerEntry(f"task-{number}", TERMS, 1) for number in range(3)]
WEIGHTS = b"weights" * 1000
NAMED = hashlib.sha256(WEIGHTS).hexdigest()


def start(path, environment):
    """Do as ``run_agent`` until it would connect; returns what the device then is."""
    chosen = settings_of(path, environment)
    config = chosen.config
    with contextlib.ExitStack() as stack:
        assembly.take_folder(stack, config.data_dir, chosen.put_damaged_away)
        clock = SystemClock(config.data_dir, keeps=True)
        assembly.prepare_store(config, message_store.prepare_here)
        kept_key(config.data_dir)
        stack.enter_context(local_listener(config.data_dir))
        note_port(config.data_dir, 8700)
        database = Database(config.data_dir / DATABASE, assembly.caps(config), clock, tidy=False)
        stack.callback(database.close)
        CardUse(config.data_dir, 100.0, clock.monotonic_s, clock.trusted_s).keep()
        assert enrolled_tls(config.data_dir) is not None
        assert config.connects
        assembly.trust_of(config, database, clock)
        programs = assembly.programs_of(config, {}, no_document)
        ModelFiles(config.data_dir / ARTIFACTS, Downloader(config.coordinator_url), programs, keyboard=True).announced()
        clock.trusted_s()
        chosen.keep()
        assert database.add("what is typed later")
        found = (config.device, config.population, config.limits.epsilon, database.ledger())
    next_key(config.data_dir)
    assert status(config).device == "pi-kitchen"
    assert served_port(config.data_dir) == 8700
    return found


@contextlib.contextmanager
def sound_device():
    """The folder of a device that has run; take a copy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data_dir = folder / "data"
        chain = write_certificate(folder / "certificate")
        credential = (folder / "certificate/privkey.pem").read_bytes() + chain.read_bytes()
        keep(data_dir, replace(HELD, authorities=[chain.read_text()], expires_s=4e9, renew_s=3e9), credential)
        (folder / "agent.toml").write_text(TEXT)
        for name_, content in {
            f"artifacts/{NAMED}": WEIGHTS,
            "artifacts/current": NAMED.encode(),
            "artifacts/announced": NAMED.encode(),
            "artifacts/first": NAMED.encode(),
            "release/handed-over": b"0" * 64,
            "release/metadata/root.json": b'{"signed": {}}',
            "release/metadata/timestamp.json": b'{"signed": {}}',
        }.items():
            (data_dir / name_).parent.mkdir(parents=True, exist_ok=True)
            (data_dir / name_).write_bytes(content)
        (data_dir / TYPED).touch()
        start(folder / "agent.toml", {DATA_DIR_VARIABLE: str(data_dir)})
        with contextlib.closing(Database(data_dir / DATABASE, CAPS, SystemClock(data_dir))) as database:
            for entry in SPENT:
                database.commit(Change(STARTING, charged=entry))
        assert start(folder / "agent.toml", {DATA_DIR_VARIABLE: str(data_dir)}) == AS_BEFORE
        assert notes(data_dir) == []
        shutil.rmtree(data_dir / "suggester")  # a socket cannot be copied
        yield folder


CAPS = assembly.Caps(1000, 4_000_000, 90 * 86400.0)
AS_BEFORE = ("pi-kitchen", "home", 1.5, SPENT)
FILES = [
    "agent.toml",
    *(f"data/{OURS}/{name}" for name in (IDENTITY, CREDENTIAL, COPY, NEXT_KEY)),
    *(f"data/{name}" for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", LEDGER)),
    *(f"data/{name}" for name in (CLOCK, WRITTEN, KEPT_SETTINGS, LOCK, TYPED, "keyboard.key", "keyboard.port")),
    *(f"data/artifacts/{name}" for name in (NAMED, "current", "announced", "first", f"{NAMED}.part")),
    *(f"data/release/{name}" for name in ("handed-over", "metadata", "metadata/root.json", "metadata/timestamp.json")),
    f"data/{PUT_AWAY}",
    "data/artifacts",
    "data/release",
    "data/suggester",
    "data/learning-paused",
    "data/damaged",
    "data/agent.db.mended",
    "data/agent.db.mended.part",
    "data/ledger.json.part",
]
KINDS = (
    "gone", "empty", "zeroed", "random", "cut", "flipped", "longer", "future", "other file", "folder", "full folder",
    "link to nowhere", "link to itself", "fifo", "socket", "no rights",
)  # fmt: skip


def damage(folder, name, kind, seed):
    path, generator = folder / name, random.Random(seed)
    data = path.read_bytes() if path.is_file() else b"something"
    if kind == "no rights":
        if path.exists():
            path.chmod(0)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    flipped = bytearray(data or b"x")
    flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
    others = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    match kind:
        case "gone":
            pass
        case "folder":
            path.mkdir()
        case "full folder":
            path.mkdir()
            (path / "inside").write_bytes(b"kept")
        case "link to nowhere":
            path.symlink_to("/nowhere/at/all")
        case "link to itself":
            path.symlink_to(path.name)
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "other file":
            path.write_bytes(generator.choice(others).read_bytes())
        case _:
            path.write_bytes(
                {
                    "empty": b"",
                    "zeroed": bytes(len(data)),
                    "random": generator.randbytes(len(data) or 50),
                    "cut": data[: generator.randrange(len(data) or 1)],
                    "flipped": bytes(flipped),
                    "longer": data + generator.randbytes(5000),
                    "future": b'{"version": 99, "from": "a release that is not made yet"}',
                }[kind]
            )
