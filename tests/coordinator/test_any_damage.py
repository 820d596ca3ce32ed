"""Any damage to any file of a data folder: a coordinator starts and is who it was, or says in words what is to be done.

It never waits, never fills the memory, and never overwrites what only a backup can bring back.
"""

import contextlib
import hashlib
import os
import random
import resource
import shutil
import signal
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.control_socket import connected, listening
from nightjar.coordinator.engine.starting import prepare
from nightjar.coordinator.enrolment.claims import Claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.mqtt.broker import write_mosquitto_files
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.blobs import MOST_BYTES, FileBlobs
from nightjar.coordinator.storage.data_folder import look_over
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.drawing_key import load_draw_seeds
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.lock import only_one
from nightjar.coordinator.storage.release_metadata import PublishedReleases, ReleaseMetadata
from nightjar.coordinator.storage.signing_key import load_signer
from nightjar.coordinator.tls.contexts import FOLDER as TLS
from nightjar.coordinator.tls.contexts import client_context, server_context
from nightjar.coordinator.tls.files import broker_pair, coordinator_pair, refresh, refused_serials, revoked_serials
from nightjar.host.limited_log import LimitedLog, shorten
from nightjar.host.put_away import notes
from nightjar.host.unix_sockets import address_of
from nightjar.wire.errors import ConfigError, IntegrityError, NightjarError, UnavailableError
from nightjar.wire.releases import ReleaseOrder
from tests.coordinator.model_folder import write_model
from tests.enrolment.in_this_process import InThisProcess
from tests.releases.world import Owner, now

NOW_S = now().timestamp()
CLAIM = Claim(name="kitchen", sha256="0" * 64, created_s=NOW_S, expires_s=NOW_S + 1e6)
LIMIT_S, MORE_MEMORY = 60, 3 * 2**30
HUGE = 5 * 2**30


class Published:
    """The files of a release, as the database keeps them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}


PUBLISHED = Published()


def config_of(folder: Path) -> CoordinatorConfig:
    return CoordinatorConfig(task=TaskConfig(model=folder / "model"), data_dir=folder / "data")


def start(config: CoordinatorConfig):
    """Do what a start does, in this process; returns what makes the coordinator the one that devices know."""
    data_dir = config.data_dir
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_one(data_dir))
        look_over(data_dir, sqlite=True)
        signer = load_signer(data_dir)
        database = stack.enter_context(contextlib.closing(Database(database_url(config))))
        artifacts = open_artifacts(data_dir / ARTIFACTS, "", database)
        prepare(config, database, artifacts, NOW_S)
        authority = InThisProcess(data_dir / "authority", NOW_S)
        refresh(config, authority, ["7"], NOW_S)
        server_context(data_dir / TLS, *coordinator_pair(data_dir / TLS))
        server_context(data_dir / TLS, *broker_pair(data_dir / TLS))
        client_context(config)
        assert refused_serials(data_dir / TLS) == revoked_serials(data_dir / TLS) == {"7"}
        stack.enter_context(listening(data_dir))
        connected(data_dir, 5.0).close()
        (data_dir / "broker").mkdir(exist_ok=True)
        listeners = Listeners("127.0.0.1", 1883, "u", "p", data_dir / TLS, 1884)
        assert "1883" in write_mosquitto_files(listeners, data_dir / "broker").read_text()
        LimitedLog(data_dir / "broker/broker.log").write(b"a line", 0.0)
        shorten(data_dir / "worker.log")
        assert (data_dir / "broker/broker.log").is_file()
        assert (data_dir / "worker.log").is_file()
        assert 0 <= load_draw_seeds(data_dir)(1) < 2**63
        published = PublishedReleases(PUBLISHED.files, ReleaseOrder())
        served = ReleaseMetadata(data_dir, artifacts).file("timestamp.json", lambda: published, NOW_S)
        root = data_dir / "releases/metadata/1.root.json"
        assert hashlib.sha256(root.read_bytes()).hexdigest() == PUBLISHED.files["1.root.json"]
        assert b"timestamp" in served.read_bytes()
        claims = [claim.name for claim in Register(database).claims()]
        return signer.public, tuple(authority.ask_certificates()), claims


InThisProcess.ask_certificates = lambda self: self.authority.certificates()


@pytest.fixture(scope="module")
def sound():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = config_of(folder)
        write_model(folder / "model")
        config.data_dir.mkdir(mode=0o700)
        owner = Owner(folder / "owner")
        bundle = owner.release("0.2.0")
        artifacts = FileBlobs(config.data_dir / ARTIFACTS)
        metadata = ReleaseMetadata(config.data_dir, artifacts)
        with contextlib.closing(Database(database_url(config))) as database:
            load_signer(config.data_dir)
            _, PUBLISHED.files = metadata.take_in(owner.metadata, owner.online_key, [bundle], {}, NOW_S)
            Register(database).add_claim(CLAIM, "a test")
        start(config)
        InThisProcess(config.data_dir / "authority", NOW_S).authority.rotate()
        (config.data_dir / "broker/mosquitto.db").write_bytes(b"sessions")
        shutil.rmtree(owner.folder)
        found = start(config)
        assert found == start(config)
        assert notes(config.data_dir) == []
        yield folder, found


DATABASE = "coordinator.sqlite"
KEPT = [
    DATABASE,
    "signing.pem",
    "keys.json",
    "artifacts",
    "authority",
    "authority/current.pem",
    "authority/former.pem",
    "releases",
    "releases/online.key",
]
"""Only a backup can bring them back."""
MADE_AGAIN = [
    *(f"{DATABASE}{end}" for end in ("-wal", "-shm")),
    *("lock", "control.sock", "drawing.key", "signing-next.pem", "worker.log", "worker.log.1"),
    *("drawing.key.part", "keys.json.part", "authority/current.pem.part", "releases/online.key.part"),
    *("server", "server/server.key", "server/server.pem", "server/server.pem.part"),
    *("tls", *(f"tls/{name}" for name in ("authorities.pem", "broker.key", "broker.pem", "revoked.pem", "refused"))),
    *("tls/access", "tls/access.part"),
    *("broker", "broker/mosquitto.conf", "broker/passwords", "broker/broker.log", "broker/broker.log.1"),
    *("broker/mosquitto.db", "releases/metadata", "releases/metadata/timestamp.json"),
    *("releases/metadata/1.root.json", "releases/metadata/1.targets.json", "put-away"),
]
FOLDERS = ["server", "tls", "broker", "releases/metadata", "put-away"]
FILES = [name for name in MADE_AGAIN if name not in FOLDERS]
KINDS = (
    "gone", "empty", "zeroed", "random", "cut", "other file", "folder", "full folder", "link to nowhere",
    "link to itself", "fifo", "socket", "device", "sparse", "longer", "readable by all",
)  # fmt: skip


ELSEWHERE = Path(__file__)


def damage(folder: Path, name: str, kind: str, seed: int = 1) -> None:
    path, generator = folder / name, random.Random(seed)
    if kind == "readable by all":
        if path.exists():
            path.chmod(0o666 if path.is_file() else 0o777)
        return
    data = path.read_bytes() if path.is_file() else b"something"
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    others = [each for each in sorted(folder.rglob("*")) if each.is_file() and each.stat().st_size] or [ELSEWHERE]
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
            with socket.socket(socket.AF_UNIX) as made, address_of(path) as address:
                made.bind(address)
        case "device":
            path.symlink_to("/dev/zero")
        case "other file":
            path.write_bytes(generator.choice(others).read_bytes())
        case "sparse" | "longer":
            path.write_bytes(data if kind == "longer" else b"")
            os.truncate(path, HUGE)
        case _:
            contents = {
                "empty": b"",
                "zeroed": bytes(len(data)),
                "random": generator.randbytes(len(data) or 50),
                "cut": data[: generator.randrange(len(data) or 1)],
            }
            path.write_bytes(contents[kind])
    if path.is_file() and not path.is_symlink():
        path.chmod(0o600)


@contextlib.contextmanager
def bounded():
    """Neither waits for ever nor takes much memory; a file of five gigabytes must not be read whole."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    def waited_too_long(*_):
        pytest.fail(f"it did not end within {LIMIT_S} s")

    handler = signal.signal(signal.SIGALRM, waited_too_long)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MORE_MEMORY, before[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def looks(path: Path):
    """What lies at a path, without reading what is long."""
    if not path.exists() and not path.is_symlink():
        return None
    status = path.lstat()
    kind = stat.S_IFMT(status.st_mode)
    read = stat.S_ISREG(status.st_mode) and status.st_size < MOST_BYTES
    return kind, status.st_size if stat.S_ISREG(status.st_mode) else 0, path.read_bytes() if read else b""


@pytest.fixture
def copy(sound, tmp_path):
    folder, found = sound

    def copied(number: int) -> CoordinatorConfig:
        shutil.copytree(folder, tmp_path / str(number), symlinks=True)
        return config_of(tmp_path / str(number))

    return copied, found


def is_made_again(config: CoordinatorConfig, found, kind: str) -> None:
    with bounded():
        assert start(config) == found, kind
        said = notes(config.data_dir)
        assert start(config) == found, kind
        assert notes(config.data_dir) == said, f"{kind}: the second start finds nothing new"
    shutil.rmtree(config.data_dir)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [FOLDERS, FILES], ids=["folders", "files"])
def test_what_can_be_made_again_is_made_again(copy, names, kind):
    copied, found = copy
    config = copied(0)
    for name in names:
        damage(config.data_dir, name, kind)
    is_made_again(config, found, kind)


@pytest.mark.long
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_each_that_can_be_made_again_is_made_again(copy, name):
    copied, found = copy
    for number, kind in enumerate(KINDS):
        config = copied(number)
        damage(config.data_dir, name, kind)
        is_made_again(config, found, kind)


def refusal(config: CoordinatorConfig, found) -> str:
    """Why a start is refused; empty if it is not, and everything is as it was."""
    try:
        same = start(config) == found
    except (ConfigError, UnavailableError) as error:
        return str(error)
    assert same
    return ""


@pytest.mark.parametrize("name", KEPT)
def test_what_only_a_backup_can_bring_back_is_refused_in_words_and_left_as_it_is(copy, name):
    copied, found = copy
    refused = 0
    for number, kind in enumerate(KINDS):
        if (name, kind) == ("authority/former.pem", "gone"):
            continue  # as 'authority retire' leaves it
        config = copied(number)
        damage(config.data_dir, name, kind)
        path = config.data_dir / name
        before = looks(path)
        with bounded():
            said = refusal(config, found)
        if said:
            refused += 1
            assert path.name in said, kind
            assert any(word in said for word in ("restore", "backup", "chmod", "copy")), (kind, said)
            assert before is None or looks(path) == before, kind
        shutil.rmtree(config.data_dir)
    assert refused >= 8


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_a_database_with_a_damaged_page_is_not_opened_for_writing(copy, share):
    copied, _ = copy
    config = copied(0)
    path = config.data_dir / DATABASE
    data = bytearray(path.read_bytes())
    begin = int(len(data) * share) // 4096 * 4096
    data[begin : begin + 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"expected a sound database, got: .*restore a backup"):
        start(config)
    assert path.read_bytes() == data


def test_a_file_of_another_user_is_named_with_its_owner(copy):
    if os.geteuid() != 0:
        pytest.skip("this needs the rights of root")
    copied, _ = copy
    config = copied(0)
    (config.data_dir / "keys.json").chmod(0)
    for path in (config.data_dir, *config.data_dir.rglob("*")):
        os.chown(path, 65534, 65534)
    os.chown(config.data_dir / "signing.pem", 0, 0)
    seen, told = os.pipe()
    for parent in config.data_dir.parents:
        if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
            parent.chmod(parent.stat().st_mode | 0o011)
    child = os.fork()
    if not child:
        try:
            os.setgid(65534)
            os.setuid(65534)
            look_over(config.data_dir, sqlite=True)
        except NightjarError as error:
            os.write(told, str(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    with os.fdopen(seen) as file:
        said = file.read()
    assert "signing.pem: expected a file, got one that nobody may not read and write (owner root, mode 0600" in said
    assert "keys.json" in said
    assert "chown" in said


def test_a_damaged_artifact_is_stored_again_and_until_then_refused_by_name(copy):
    copied, _ = copy
    config = copied(0)
    artifacts = FileBlobs(config.data_dir / ARTIFACTS)
    for kind in KINDS[:-1]:
        name = artifacts.put(b"weights")
        path = artifacts.path(name)
        damage(path.parent, path.name, kind)
        with bounded():
            if kind != "other file":
                with pytest.raises(IntegrityError, match="copy it from a backup"):
                    artifacts.get(name)
            artifacts.put(b"weights")
            assert artifacts.get(name) == b"weights", kind
        path.unlink()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"readable by all", "longer"}])
def test_while_it_runs_the_servers_files_are_written_again(copy, kind):
    copied, _ = copy
    config = copied(0)
    authority = InThisProcess(config.data_dir / "authority", NOW_S)
    for name in (each for each in MADE_AGAIN if each.startswith(("tls", "server"))):
        damage(config.data_dir, name, kind)
        with bounded():
            refresh(config, authority, ["7"], NOW_S)
            server_context(config.data_dir / TLS, *coordinator_pair(config.data_dir / TLS))
            server_context(config.data_dir / TLS, *broker_pair(config.data_dir / TLS))
        assert refused_serials(config.data_dir / TLS) == revoked_serials(config.data_dir / TLS) == {"7"}, name


def test_an_authority_that_is_gone_while_it_runs_is_not_replaced_by_another(copy):
    copied, _ = copy
    config = copied(0)
    shutil.rmtree(config.data_dir / "authority")
    with pytest.raises(ConfigError, match=r"current\.pem is missing.*restore it from the backup.*new claim"):
        InThisProcess(config.data_dir / "authority", NOW_S)
    assert not any((config.data_dir / "authority").iterdir())
