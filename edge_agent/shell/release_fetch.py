"""Finds, verifies and fetches the release that this device should have, in a short-lived process.

The Update Framework's client verifies the metadata. Its first trusted root comes with the present release, whose bundle
the owner signed; later roots, and the versions below which no metadata is accepted, are kept in ``data_dir``. The
bundle is an artifact, so it is fetched as a model is: resumed, and checked against the hash and size in the metadata.
What is complete is left in ``data_dir/release`` for ``nightjar-device ordered``, which checks the bundle's own
signature and tries the release (:mod:`nightjar.firmware_scripts.device.handing_over`). A bundle that came to nothing
there is not fetched again: the last one is remembered by its hash, and the reason that was left is told. Another
replaces one that still waits to be unpacked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig

from nightjar.edge_agent.enrolment.identity import enrolled_tls
from nightjar.edge_agent.inbox import ReleaseCheckDone
from nightjar.edge_agent.shell.http import Downloader, Patience
from nightjar.edge_agent.shell.releases import Looking, read_record
from nightjar.host.children import die_with_parent
from nightjar.host.files import put_in_place, read_file, replace_file
from nightjar.wire.errors import NightjarError, RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import device_id, sha256
from nightjar.wire.release_version import numbers
from nightjar.wire.releases import (
    METADATA_PATH,
    MOST_METADATA_BYTES,
    ORDER,
    BundleFacts,
    ReleaseOrder,
    bundle_name,
    offered_release,
)

FOLDER = "release"
BUNDLE, WITHDRAWN, HANDED_OVER = "bundle.tar", "withdrawn.json", "handed-over"
INCOMING, NOT_TAKEN = "incoming.tar", "not-taken"
"""What ``nightjar-device`` took over, and why it does not use it; beside its record."""
BYTES_PER_S = 1_000_000.0
"""A release is never so urgent that it should fill the line of a home."""
WHOLE_S = 3 * 3600.0
_MOST_CHARACTERS = 300


class _Facts(msgspec.Struct, frozen=True):
    agent: str
    platform: str


def look(asked: Looking) -> ReleaseCheckDone:
    """Look once.

    Raises:
        NightjarError: the coordinator or the disk is not available, or the present release is damaged.
    """
    folder = Path(asked.data_dir) / FOLDER
    patience = Patience(whole_s=WHOLE_S, bytes_per_s=BYTES_PER_S)
    downloader = Downloader(asked.coordinator_url, patience, tls=enrolled_tls(Path(asked.data_dir)))
    try:
        return _Look(asked, folder, downloader).outcome()
    except RepositoryError as error:
        return ReleaseCheckDone("metadata does not verify", f"metadata: {error}")
    except (DownloadError, OSError, msgspec.MsgspecError) as error:
        raise UnavailableError(str(error.__cause__ or error)) from error
    finally:
        downloader.hang_up()


class _Look:
    def __init__(self, asked: Looking, folder: Path, downloader: Downloader) -> None:
        self._asked = asked
        self._folder = folder
        self._downloader = downloader
        present = Path(asked.release)
        self._facts = msgspec.json.decode((present / "manifest.json").read_bytes(), type=_Facts)
        self._refused = read_record(Path(asked.record)).refused
        kept = folder / "metadata"
        kept.mkdir(parents=True, exist_ok=True)
        self._updater = Updater(
            str(kept),
            METADATA_PATH,
            fetcher=_Metadata(downloader),
            config=UpdaterConfig(
                root_max_length=MOST_METADATA_BYTES,
                snapshot_max_length=MOST_METADATA_BYTES,
                targets_max_length=MOST_METADATA_BYTES,
            ),
            bootstrap=(present / "root.json").read_bytes(),
        )

    def outcome(self) -> ReleaseCheckDone:
        self._updater.refresh()
        target = self._updater.get_targetinfo(ORDER)
        if target is None:
            return ReleaseCheckDone("the coordinator orders no release")
        order = msgspec.convert(target.custom, ReleaseOrder)
        present = self._facts.agent
        if present in order.withdrawn and present not in self._refused:
            told = {"version": present, "reason": order.withdrawn[present]}
            replace_file(self._folder / WITHDRAWN, msgspec.json.encode(told))
            return ReleaseCheckDone(f"release {present} was withdrawn")
        version = offered_release(order, device_id(self._asked.device))
        if version is None or version in self._refused or numbers(version) <= numbers(present):
            self._remove_partial()
            return ReleaseCheckDone(f"release {present} is what this device should have")
        return self._fetch(version)

    def _fetch(self, version: str) -> ReleaseCheckDone:
        name = bundle_name(version, self._facts.platform)
        target = self._updater.get_targetinfo(name)
        if target is None:
            return ReleaseCheckDone(f"release {version} has no bundle for {self._facts.platform}")
        if not (self._asked.free or msgspec.convert(target.custom, BundleFacts).security):
            return ReleaseCheckDone(f"release {version} waits until the device is charging and on an unmetered network")
        last, digest = self._folder / HANDED_OVER, target.hashes["sha256"].encode()
        if _is_noted(last, digest):
            theirs = Path(self._asked.record).parent
            if (self._folder / BUNDLE).exists() or (theirs / INCOMING).exists():
                return ReleaseCheckDone(f"release {version} is handed over already")
            reason = _first_line(theirs / NOT_TAKEN) or "the device has no use for its bundle"
            return ReleaseCheckDone(f"release {version} was not taken", f"{version}: {reason}")
        partial = self._folder / f"{target.hashes['sha256']}.part"
        self._remove_partial(partial)
        try:
            self._downloader.fetch(sha256(target.hashes["sha256"]), partial, target.length, lambda: False)
        except RemoteProtocolError as error:
            return ReleaseCheckDone(f"release {version} was not fetched", f"{version}: {error}")
        put_in_place(partial, self._folder / BUNDLE)
        replace_file(last, digest)
        return ReleaseCheckDone(f"release {version} was fetched and handed over")

    def _remove_partial(self, kept: Path | None = None) -> None:
        for path in self._folder.glob("*.part"):
            if path != kept:
                path.unlink()


def _is_noted(path: Path, digest: bytes) -> bool:
    """Whether a file holds this; one that damage made unreadable holds nothing, and is written anew."""
    try:
        return read_file(path, 2 * len(digest)) == digest
    except OSError:
        return False


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_MOST_CHARACTERS).replace("\0", "?").strip()
    except OSError:
        return ""


class _Metadata(FetcherInterface):
    """Fetches metadata from the coordinator."""

    def __init__(self, downloader: Downloader) -> None:
        self._downloader = downloader

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            return iter([self._downloader.read(url, MOST_METADATA_BYTES)])
        except RemoteProtocolError as error:
            raise DownloadHTTPError(str(error), 404) from error


def main() -> int:
    """Read :class:`Looking` from stdin, and print :class:`ReleaseCheckDone`; exit status 3 means try again later."""
    die_with_parent(os.getppid())
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Looking)
    try:
        looked = look(asked)
    except NightjarError as error:
        sys.stderr.write(str(error))
        return UnavailableError.exit_status
    sys.stdout.buffer.write(msgspec.json.encode(looked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
