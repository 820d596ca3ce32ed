"""Runs pip on lock files, compiles what it installed, and says every few seconds how far it is.

``install_progress.py PYTHON LOCK...``, for the environment of PYTHON. That may be a new one, so this needs the standard
library only. pip's own words are printed only if it fails.
"""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_S = 5.0
_PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--no-deps"]
_LOCKED = ["--only-binary", ":all:", "--require-hashes", "--progress-bar", "off"]
# pip would compile with one core. Templates in packages do not compile, and need not.
_COMPILE = "import compileall, sysconfig; compileall.compile_dir(sysconfig.get_path('purelib'), quiet=2, workers=0)"


class Progress:
    """What is being done, printed every few seconds from a thread of its own."""

    def __init__(self, total: int) -> None:
        self.fetched: set[str] = set()
        self.doing = ""
        self._total, self._began_s = total, time.monotonic()
        threading.Thread(target=self._report, daemon=True).start()

    def _report(self) -> None:
        while True:
            time.sleep(EVERY_S)
            doing = self.doing or f"{len(self.fetched)} of {self._total} packages fetched"
            print(f"setup: {doing}, {time.monotonic() - self._began_s:.0f} s", file=sys.stderr, flush=True)


def main(python: str, *locks: str) -> int:
    """Install the locks and compile; returns pip's exit status."""
    text = "".join(Path(lock).read_text() for lock in locks)
    progress = Progress(len(set(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[.*\])?==", text, flags=re.MULTILINE))))
    command = [python, *_PIP, *_LOCKED, *(f"--requirement={lock}" for lock in locks)]
    lines = []
    whole = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **whole, text=True, errors="replace") as pip:
        for line in pip.stdout or ():
            lines.append(line)
            if found := re.match(r"(?:Collecting|Processing|Requirement already satisfied:) (\S+)", line):
                progress.fetched.add(found[1])
            elif line.startswith("Installing collected packages"):
                progress.doing = f"unpacking {len(progress.fetched)} packages"
    if pip.returncode:
        print("".join(line for line in lines if not line.startswith("WARNING: Location"))[-4000:], file=sys.stderr)
        return pip.returncode
    progress.doing = "compiling"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([python, "-c", _COMPILE], env=environment, stdout=subprocess.DEVNULL, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
