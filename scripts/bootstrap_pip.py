"""Puts pip into an environment that was made without it: for Debian machines that lack python3-venv.

Fetches the newest pip wheel from the package index (PIP_INDEX_URL, PyPI by default), checks the sha256 that the index
states, and lets that pip install itself.
"""

import hashlib
import html
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

WHEEL = r'href="([^"]*/pip-([0-9.]+)-py3-none-any\.whl)#sha256=([0-9a-f]{64})"'
"""A released wheel in a simple index page (PEP 503)."""


def fetch(url: str) -> bytes:
    """The body at a URL, as the simple API's HTML form where there are several."""
    request = urllib.request.Request(url, headers={"Accept": "text/html"})  # noqa: S310 - checked in main
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return bytes(answer.read())


def main() -> None:
    """Fetch, verify, install; exit with a message that says what to do where it cannot."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    if not index.startswith(("https://", "http://")):
        sys.exit(f"setup: PIP_INDEX_URL must be an http(s) address, got {index}")
    page = f"{index}/pip/"
    try:
        wheels = re.findall(WHEEL, fetch(page).decode())
        url, version, sha256 = max(wheels, key=lambda wheel: [int(part) for part in wheel[1].split(".")])
        data = fetch(urllib.parse.urljoin(page, html.unescape(url)))
    except (OSError, ValueError) as error:
        sys.exit(f"setup: could not fetch pip from {page} ({error}). Install it yourself: apt install python3-venv")
    name = f"pip-{version}-py3-none-any.whl"
    if hashlib.sha256(data).hexdigest() != sha256:
        sys.exit(f"setup: {name} does not have the sha256 that {page} states. Try again.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        subprocess.run([sys.executable, f"{path}/pip", "install", "--quiet", "--no-index", str(path)], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
