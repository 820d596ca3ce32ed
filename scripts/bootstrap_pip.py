"""Puts pip into an environment that was made without it: for Debian machines that lack python3-venv.

Fetches the newest pip wheel from the package index (PIP_INDEX_URL, PyPI by default), checks the sha256 that the index
states, and lets that pip install itself.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path


def main() -> None:
    """Fetch, verify, install; exit with a message that says what to do where it cannot."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    if not index.startswith(("https://", "http://")):
        sys.exit(f"setup: PIP_INDEX_URL must be an http(s) address, got {index}")
    page = f"{index}/pip/"
    try:
        request = urllib.request.Request(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            files = json.load(answer)["files"]
        wheel = [f for f in files if f["filename"].endswith("-py3-none-any.whl") and not f.get("yanked")][-1]
        with urllib.request.urlopen(urllib.parse.urljoin(page, wheel["url"]), timeout=60) as answer:  # noqa: S310
            data = answer.read()
    except (OSError, ValueError, LookupError) as error:
        sys.exit(f"setup: could not fetch pip from {page} ({error}). Install it: apt install python3-venv")
    if hashlib.sha256(data).hexdigest() != wheel["hashes"]["sha256"]:
        sys.exit(f"setup: {wheel['filename']} does not have the sha256 that {page} states. Try again.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / wheel["filename"]
        path.write_bytes(data)
        subprocess.run([sys.executable, f"{path}/pip", "install", "--quiet", "--no-index", str(path)], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
