"""An owner with offline keys, a coordinator that serves what it publishes, and a device that looks for releases.

Only the network is played: a server on this machine, whose answers somebody between may replace.
"""

import contextlib
import json
import shutil
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.release_metadata import PublishedReleases, ReleaseMetadata
from nightjar.edge_agent.shell import release_fetch
from nightjar.edge_agent.shell.releases import Looking
from nightjar.firmware_scripts import release_keys
from nightjar.firmware_scripts.bundle.making import write_archive
from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.wire.releases import EVERYBODY, METADATA_PATH, ReleaseOffer, ReleaseOrder, bundle_name

PLATFORM = "trixie-aarch64"
TO_ALL = ReleaseOrder((ReleaseOffer("0.2.0", EVERYBODY),))


def now():
    return datetime.now(UTC)


class Owner:
    """SignatureCheck the keys."""

    def __init__(self, folder, root=(2, 3), targets=(1, 1)):
        self.folder = folder
        folder.mkdir()
        release_keys.make_repository(folder / "tuf", {"root": root, "targets": targets}, now())
        make_key(folder / "fleet.key", folder / "fleet.pub")

    @property
    def metadata(self):
        return self.folder / "tuf" / "metadata"

    @property
    def online_key(self):
        return sorted((self.folder / "tuf/keys").glob("online-*.key"))[-1]

    def root(self):
        return sorted(self.metadata.glob("*.root.json"))[-1].read_bytes()

    def bundle(self, version, text="the agent"):
        path = self.folder / bundle_name(version, PLATFORM)
        facts = {"agent": version, "platform": PLATFORM}
        files = {"root.json": self.root(), "wheels/agent": text.encode()}
        write_archive(path, facts, files, load_private_key(self.folder / "fleet.key"))
        return path

    def release(self, version, *, security=False):
        path = self.bundle(version)
        release_keys.add_bundles(self.folder / "tuf", [path], now(), security=security)
        return path

    @contextlib.contextmanager
    def without(self, pattern):
        """Keys that are elsewhere."""
        away = self.folder / "away"
        away.mkdir()
        for key in (self.folder / "tuf/keys").glob(pattern):
            shutil.move(key, away)
        yield
        for key in away.iterdir():
            shutil.move(key, self.folder / "tuf/keys")
        away.rmdir()


class Coordinator:
    """Serves what it publishes; ``between`` replaces answers by path."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.artifacts = FileBlobs(folder / "artifacts")
        self.store, self.files = ReleaseMetadata(folder, self.artifacts), {}
        self.order = ReleaseOrder()
        self.age = timedelta()  # how long ago it signed last
        self.between = {}
        self.asked = []

    def add(self, owner, *bundles):
        added, self.files = self.store.take_in(owner.metadata, owner.online_key, bundles, self.files, self.now_s())
        return added

    def now_s(self):
        return (now() - self.age).timestamp()

    def answer(self, path):
        self.asked.append(path)
        if path in self.between:
            return self.between[path]
        name = path.rpartition("/")[2]
        if path.startswith(METADATA_PATH):
            found = self.store.file(name, lambda: PublishedReleases(self.files, self.order), self.now_s())
        else:
            found = self.artifacts.path(name)
        return found.read_bytes() if found is not None and found.is_file() else None

    @contextlib.contextmanager
    def served(self):
        coordinator = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                data = coordinator.answer(self.path)
                start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
                self.send_response(404 if data is None else 206 if start else 200)
                data = (data or b"")[start:]
                self.send_header("Content-Range", f"bytes {start}-{start + len(data) - 1}/*")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a device that was told too much hangs up
                    self.wfile.write(data)

            def log_message(self, *_args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class Device:
    """Runs release 0.1.0, which came with the owner's first root."""

    def __init__(self, folder, owner, url, name="porch-01"):
        self.folder, self.url, self.name = folder, url, name
        self.release, self.record = folder / "current", folder / "releases.json"
        self.release.mkdir(parents=True)
        self.runs("0.1.0")
        (self.release / "root.json").write_bytes((owner.metadata / "1.root.json").read_bytes())

    def runs(self, version, refused=()):
        (self.release / "manifest.json").write_text(json.dumps({"agent": version, "platform": PLATFORM}))
        self.record.write_text(json.dumps({"refused": dict.fromkeys(refused, "did not start")}))

    @property
    def handed_over(self):
        return self.folder / "data/release/bundle.tar"

    def looking(self, free=True):
        return Looking(
            device=self.name, coordinator_url=self.url, data_dir=str(self.folder / "data"),
            release=str(self.release), record=str(self.record), free=free,
        )  # fmt: skip

    def look(self, free=True):
        return release_fetch.look(self.looking(free))
