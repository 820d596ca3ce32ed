"""The real coordinator, which dies by SIGKILL at chosen points: ``python -m tests.faults.mortal_coordinator``.

Arguments: the configuration; a file of points, one ``name@round`` a line; a file where the points are noted at which
it has died, so that it dies once at each. A report with ``DEADLY`` in its bytes meets a defect every time. Nothing else
is changed.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from pathlib import Path

from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.engine.driver import Driver
from nightjar.coordinator.engine.effect_runner import EffectRunner
from nightjar.coordinator.engine.message_handler import MessageHandler
from nightjar.coordinator.records.effects import AnnounceModel
from nightjar.coordinator.rounds.events import AssignDevice, SendReceipt, StartAggregation
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.service import serve
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.host.logs import configure_logs

DEADLY = struct.pack("<f", 666.25)

_take, _carry_out, _flush, _take_message = (
    Driver._take,
    EffectRunner.carry_out,
    DatabaseView.flush,
    MessageHandler._take,
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Reaper:
    """Decides where it dies."""

    def __init__(self, points: Path, died: Path) -> None:
        lines = points.read_text().split() if points.exists() else []
        self._points = {name: int(number) for name, number in (line.split("@") for line in lines)}
        self._died = died
        self._done = set(died.read_text().split()) if died.exists() else set()
        self.round = 0
        self.assigned = 0
        self.receipts = 0

    def at(self, point: str) -> None:
        # Or later: a round to which nobody came, on a slow machine, has few points.
        if point not in self._done and self.round >= self._points.get(point, 10**9):
            with self._died.open("a") as file:
                file.write(f"{point}\n")
            die()


def haunt(reaper: Reaper) -> None:
    def current(driver):
        """The open round of the one task that these coordinators have."""
        return next(iter(driver._snapshot.rounds.values()), None)

    def take(driver, batch):
        before = current(driver)
        reaper.round = before.number if before else reaper.round
        _take(driver, batch)
        pending = [effect for _, effect in driver._pending]
        after = current(driver)
        if after and after.phase is Phase.SELECTION and after.pool:
            reaper.round = after.number
            reaper.at("selection")
        for kind, point in (
            (AssignDevice, "committed-the-selection"),
            (SendReceipt, "committed-a-report"),
            (StartAggregation, "committed-the-last-report"),
        ):
            if any(isinstance(effect, kind) for effect in pending):
                reaper.at(point)
        reaper.receipts += sum(isinstance(effect, SendReceipt) for effect in pending)
        if reaper.receipts >= 500:
            reaper.at("committed-500-reports")
        newest = {version.round for version in driver._snapshot.versions.values()}
        if any(isinstance(effect, AnnounceModel) for effect in pending) and reaper.round in newest:
            reaper.at("committed-the-version")

    def carry_out(execution, effect, board):
        done = _carry_out(execution, effect, board)
        if isinstance(effect, AssignDevice):
            reaper.assigned += 1
            if reaper.assigned == 2:
                reaper.at("assigned-two")
        if isinstance(effect, StartAggregation):
            reaper.at("averaging")
        return done

    def flush(view):
        waiting = bool(view._reports)
        _flush(view)
        if waiting:
            reaper.at("wrote-a-report")

    def take_message(intake, arrived, turn):
        if arrived.topic.endswith("/report") and DEADLY in arrived.payload:
            raise MemoryError
        _take_message(intake, arrived, turn)

    Driver._take, EffectRunner.carry_out, DatabaseView.flush, MessageHandler._take = (
        take,
        carry_out,
        flush,
        take_message,
    )


def main(config_path: str, points: str, died: str) -> None:
    haunt(Reaper(Path(points), Path(died)))
    config = load_config(Path(config_path), os.environ)
    configure_logs(config.log.value)
    serve(config)


if __name__ == "__main__":
    main(*sys.argv[1:])
