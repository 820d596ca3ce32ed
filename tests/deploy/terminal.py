"""A person's terminal, and what their browser sees."""

import contextlib
import http.client
import os
import signal
import subprocess
import urllib.request

MINUTES_S = 300.0


class Terminal:
    """A shell in a folder that runs commands as they were pasted; what it prints is in ``log``."""

    def __init__(self, folder, commands, environment):
        self.log = folder / f"log-{len(commands)}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-e", "-c", commands],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)  # ctrl-C
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)


def fetch(url):
    with contextlib.suppress(OSError, http.client.HTTPException), urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()
    return ""
