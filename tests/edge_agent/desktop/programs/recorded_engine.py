"""The engine, which also writes each event and its effects to a file: recorded_engine.py RECORD_FILE."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from nightjar.edge_agent.desktop.engine import NightjarEngine, serve
from nightjar.edge_agent.desktop.settings import read_settings, socket_path

RECORD = Path(sys.argv[1]).open("a", buffering=1)  # noqa: SIM115 - until the process ends


class RecordedEngine(NightjarEngine):
    def take(self, event):
        effects = super().take(event)
        RECORD.write(json.dumps([named(event), [named(effect) for effect in effects]]) + "\n")
        return effects


def named(value):
    return {"is": type(value).__name__, **asdict(value)}


here = Path(sys.argv[1]).parent
serve(read_settings(here / "ibus.toml")[0], socket_path({}, here, read_settings(here / "ibus.toml")[0]), RecordedEngine)
