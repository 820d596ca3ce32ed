"""HTTP downloader: fetches one artifact by its hash from the coordinator, resumes after a cut, and verifies it.

A partial file is continued with a Range request, and discarded if the complete file has the wrong hash. The length
that the server announces is not trusted: at most ``limit_bytes`` are ever written. A 404 is not retried. A cut
connection, a 5xx or a wrong hash is retried a bounded number of times with jittered back-off. Redirects are not
followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from nightjar.wire.backoff import BackOff
from nightjar.wire.enrolment import COORDINATOR_NAME
from nightjar.wire.errors import IntegrityError, RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import Sha256

PIECE_BYTES = 64 * 1024

ShouldStop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Patience:
    """Retry and timeout limits of a download.

    Attributes:
        tries: attempts; each continues where the previous one was cut.
        read_s: longest silence on a connection.
        whole_s: longest time for one artifact over all attempts: a trickle must not hold the worker for ever.
    """

    tries: int = 4
    back_off: BackOff = field(default=BackOff(first_s=2.0, most_s=20.0))
    connect_s: float = 5.0
    read_s: float = 20.0
    whole_s: float = 600.0
    bytes_per_s: float = math.inf


class Downloader:
    """Fetches artifacts from one coordinator.

    ``tls`` is the context of an enrolled device; None trusts the system's certificate authorities.
    """

    def __init__(
        self,
        base_url: str,
        patience: Patience = Patience(),
        jitter: Callable[[], float] = random.random,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._patience = patience
        self._jitter = jitter
        timeout = urllib3.Timeout(connect=patience.connect_s, read=patience.read_s)
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=1,
            timeout=timeout,
            retries=False,
            ssl_context=tls,
            # An enrolled device trusts its own certificate authority (:mod:`nightjar.edge_agent.enrolment.identity`).
            assert_hostname=None if tls is None else COORDINATOR_NAME,
        )

    def fetch(self, sha256: Sha256, partial: Path, limit_bytes: int, should_stop: ShouldStop) -> None:
        """Download an artifact into a file.

        What ``partial`` already holds is taken as the beginning of the artifact; ``should_stop`` is polled between
        pieces.

        Raises:
            IntegrityError: the hash was wrong twice; the file was deleted.
            RemoteProtocolError: the artifact is longer than allowed, or the coordinator does not have it.
            UnavailableError: it could not be fetched now; the bytes received so far are kept.
        """
        deadline_s = time.monotonic() + self._patience.whole_s
        for tries in range(1, self._patience.tries + 1):
            try:
                self._continue(sha256, partial, limit_bytes, lambda: should_stop() or time.monotonic() > deadline_s)
                _verify(sha256, partial)
            except IntegrityError:
                # Perhaps the part kept from an earlier attempt was bad: try once more from the start.
                partial.unlink(missing_ok=True)
                if tries >= min(2, self._patience.tries):
                    raise
            except UnavailableError:
                if tries == self._patience.tries or should_stop():
                    raise
                self._wait(self._patience.back_off.delay_s(tries, self._jitter()), should_stop)
            else:
                return

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Fetch a small document of the coordinator, such as metadata that somebody else verifies.

        Raises:
            RemoteProtocolError: the coordinator does not have it.
            UnavailableError: it could not be fetched now, or is longer than allowed.
        """
        with self._answer(path, path) as response:
            _follows(response, 0)
            data = response.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            msg = f"expected at most {limit_bytes} bytes of {path}, more came"
            raise UnavailableError(msg)
        return data

    def hang_up(self) -> None:
        """Close the connection. It is kept open between artifacts: a new one costs more than a small artifact.

        Call this when a model is complete. The next model is minutes or hours away, and thousands of phones must not
        each hold a connection until then.
        """
        self._pool.clear()

    def _continue(self, sha256: Sha256, partial: Path, limit_bytes: int, should_stop: ShouldStop) -> None:
        have = partial.stat().st_size if partial.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with self._answer(f"/artifacts/{sha256}", f"artifact {sha256[:12]}", headers) as response:
            if not _follows(response, have):
                partial.unlink(missing_ok=True)
                msg = f"status {response.status} to a request from byte {have}: begin anew"
                raise UnavailableError(msg)
            begin = have if response.status == 206 else 0
            _append(response, partial, begin, limit_bytes, self._patience.bytes_per_s, should_stop)

    @contextlib.contextmanager
    def _answer(self, path: str, what: str, headers: Mapping[str, str] = {}) -> Iterator[urllib3.BaseHTTPResponse]:
        """The coordinator's answer to a request; an error of the connection or the disk is an UnavailableError."""
        try:
            url = f"{self._base_url}{path}"
            response = self._pool.request("GET", url, headers=headers, preload_content=False, redirect=False)
            # A body that was read to its end has already returned its connection to the pool. The rest of an
            # unfinished body must not be mistaken for the next response.
            with contextlib.closing(response):
                yield response
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"the coordinator at {self._base_url} did not deliver {what}: {reason_of(error)}"
            raise UnavailableError(msg) from error

    def _wait(self, seconds: float, should_stop: ShouldStop) -> None:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not should_stop():
            time.sleep(min(left_s, 0.2))


def _follows(response: urllib3.BaseHTTPResponse, have: int) -> bool:
    """Whether the body is the whole artifact or continues where the file ends; False for any other range."""
    match response.status:
        case 200:
            return True
        case 206:
            return response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        case 416:
            return False
        case 404 | 410:
            msg = f"status {response.status}: the coordinator does not have the artifact"
            raise RemoteProtocolError(msg, code="no-artifact")
        case status:
            msg = f"expected status 200 or 206 for an artifact, got {status}"
            raise UnavailableError(msg)


def _append(
    response: urllib3.BaseHTTPResponse,
    partial: Path,
    have: int,
    limit_bytes: int,
    bytes_per_s: float,
    should_stop: ShouldStop,
) -> None:
    with partial.open("ab" if have else "wb") as file:
        # urllib3 raises at the end of a body that is shorter than announced.
        while piece := response.read1(PIECE_BYTES):
            have += len(piece)
            if have > limit_bytes:
                file.truncate(0)
                msg = f"expected an artifact of at most {limit_bytes} bytes, more came"
                raise RemoteProtocolError(msg, code="too-large")
            file.write(piece)
            time.sleep(len(piece) / bytes_per_s)
            if should_stop():
                msg = "the download was stopped"
                raise UnavailableError(msg)


def _verify(sha256: Sha256, path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        msg = (
            f"artifact {sha256[:12]}: expected bytes with that sha256, got {digest[:12]} ({path.stat().st_size} bytes)"
        )
        raise IntegrityError(msg)


def reason_of(error: BaseException) -> str:
    """What the operating system, or TLS, said of a request that failed, without the objects of Python around it.

    >>> reason_of(urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset by peer")))
    'reset by peer'
    """
    inside = (error.__cause__, *error.args)
    inner = next((each for each in inside if isinstance(each, BaseException)), None)
    if inner is not None:
        return reason_of(inner)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    return str(getattr(error, "strerror", None) or error)
