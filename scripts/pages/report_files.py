"""Makes docs/files-of-a-report.md: every file that a report visits on its way to the next version, as recorded."""

import json
import subprocess
import sys
from pathlib import Path

from scripts.record_calls import first_visits

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "files-of-a-report.md"
_HEAD = """# Every file that a report visits

Made by `python -m scripts.pages` from a recording (`python scripts/record_calls.py report`); do not edit by hand.

[The life of a report](life-of-a-report.md) stops at ten files. These are all {count} of coordinator, wire, models and
host, each where it is first visited, from the MQTT client's callback to the committed version and the next round
([what is recorded](adr/0062-how-long-a-walk-is.md)).
"""
_THREADS = {
    "network": "In paho's thread",
    "driver": "In the driver's thread",
    "worker": "In the thread that supervises the worker",
    "worker's process": "In the worker's process",
}


def page() -> str:
    """The whole page."""
    recorder = [sys.executable, str(ROOT / "scripts" / "record_calls.py"), "report", "--json"]
    done = subprocess.run(recorder, capture_output=True, text=True, check=True, timeout=250)
    visits = list(first_visits(json.loads(done.stdout.splitlines()[-1])))
    lines = [_HEAD.format(count=sum(len(files) for _, files in visits))]
    for thread, files in visits:
        lines += [f"## {_THREADS[thread]}", "", *(f"- [`{file}`](../{file})" for file in files), ""]
    return "\n".join(lines)
