"""A read-only client of the coordinator's HTTP API: its devices, and which reports were accepted."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from nightjar.wire.errors import ConfigError, UnavailableError

_TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 16 * 2**20


class Coordinator:
    """Reads one coordinator's API. Every method raises UnavailableError if it does not answer.

    ``authority`` holds certificates to trust, PEM; empty trusts the system's. ``token`` is a viewer's; empty if the
    coordinator does not require one.

    Raises:
        ConfigError: the URL or the certificates cannot be used.
    """

    def __init__(self, url: str, authority: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            msg = f"expected the coordinator's URL, such as http://127.0.0.1:8080, got {url[:80]!r}"
            raise ConfigError(msg)
        self._url = url.rstrip("/")
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._trust = ssl.create_default_context(cadata=authority or None)
        except ssl.SSLError as error:
            msg = f"the certificates in the claim file cannot be read: {error}"
            raise ConfigError(msg) from error

    def device(self, name: str) -> dict[str, Any] | None:
        """The state of one device; None if the coordinator does not know it."""
        row: dict[str, Any] | None = self._get(f"/devices/{name}")
        return row

    def counted(self, device: str, after: int) -> int | None:
        """The newest committed round after this one with an accepted report of ``device``; None if there is none."""
        rounds = self._get("/rounds?limit=20")
        for row in rounds["items"] if rounds else ():
            if row["number"] <= after or row["phase"] != "committed":
                continue
            detail = self._get(f"/rounds/{row['number']}")
            seats = detail["seats"] if detail else ()
            if any(seat["device"] == device and seat["state"] == "reported" for seat in seats):
                return int(row["number"])
        return None

    def newest_round(self) -> int:
        """The number of the newest round; 0 if there is none."""
        rounds = self._get("/rounds?limit=1")
        return int(rounds["items"][0]["number"]) if rounds and rounds["items"] else 0

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self._url}/api/v1{path}", headers=self._headers)  # noqa: S310 - http(s) only
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._trust) as answer:  # noqa: S310
                return json.loads(answer.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            hint = ": set NIGHTJAR_TOKEN to the token of a viewer" if error.code in (401, 403) else ""
            msg = f"the coordinator answers {error.code} to {path}{hint}"
            raise UnavailableError(msg) from error
        except (OSError, ValueError) as error:
            msg = f"the coordinator at {self._url} does not answer: {getattr(error, 'reason', error)}"
            raise UnavailableError(msg) from error
