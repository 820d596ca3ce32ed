import io
import sys

from nightjar.firmware_scripts.ports import WorkPhase
from nightjar.firmware_scripts.shell.progress import LINE_EVERY_S, ProgressLines, display


def test_lines_tell_rate_and_time_left_now_and_then():
    now, lines = [0.0], []
    report = ProgressLines(lambda: now[0], lines.append).report_for("sdb\x1b[2J")
    for second in range(41):
        now[0] = float(second)
        report(WorkPhase.WRITE, second * 25_000_000, 1_000_000_000)
    assert len(lines) == 40 / LINE_EVERY_S + 1
    assert lines[2] == "sdb?[2J: writing: 25 % of 1.0 GB, 25.0 MB/s, 0:30 left"
    assert lines[-1] == "sdb?[2J: writing: 100 % of 1.0 GB, 25.0 MB/s"


def test_each_phase_starts_with_a_line_and_counts_for_itself():
    now, lines = [0.0], []
    report = ProgressLines(lambda: now[0], lines.append).report_for("sdb")
    report(WorkPhase.SURVEY, 10, None)
    now[0] = 1.0
    report(WorkPhase.WRITE, 0, 100)
    now[0] = 2.0
    report(WorkPhase.WRITE, 100, 100)
    assert lines == [
        "sdb: looking through: 10 B",
        "sdb: writing: 0 % of 100 B",
        "sdb: writing: 100 % of 100 B, 100 B/s",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_on_a_terminal_show_every_card(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with display() as report_for:
        for name in ("sdb", "[red]sdc"):
            report = report_for(name)
            report(WorkPhase.SURVEY, 5, None)
            report(WorkPhase.WRITE, 500, 1000)
            report(WorkPhase.VERIFY, 1000, 1000)
    assert "sdb: reading back" in terminal.getvalue()
    assert "[red]sdc: writing" in terminal.getvalue()
