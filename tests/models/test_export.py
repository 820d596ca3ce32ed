from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightjar.models import export
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.export import export_program
from nightjar.wire.errors import LocalProtocolError, UnavailableError

TINY = configuration("tiny")


def child(monkeypatch: pytest.MonkeyPatch, returncode: int, writes: bytes | None, stderr: str = "") -> list[list[str]]:
    """Put another program in the place of the converter's process; returns the commands it was given."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if writes is not None:
            Path(command[-1]).write_bytes(writes)
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(export, "_tensorflow_version", lambda: "0")
    return commands


def test_a_program_is_converted_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = child(monkeypatch, 0, b"program")
    assert [export_program(TINY, 100, tmp_path / "new" / "cache") for _ in range(3)] == [b"program"] * 3
    assert len(commands) == 1


def test_another_size_shape_or_tensorflow_is_another_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = child(monkeypatch, 0, b"program")
    export_program(TINY, 100, tmp_path)
    export_program(TINY, 101, tmp_path)
    export_program(ModelConfiguration("tiny", 2_000, 64, 128, batch_rows=8), 100, tmp_path)
    monkeypatch.setattr(export, "_tensorflow_version", lambda: "1")
    export_program(TINY, 100, tmp_path)
    assert len(commands) == 4


def test_a_converter_that_dies_is_said_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, -11, None)
    with pytest.raises(UnavailableError, match="killed by signal 11"):
        export_program(TINY, 100, tmp_path)
    child(monkeypatch, 1, b"half a program", "Traceback\nValueError: no such operation")
    with pytest.raises(UnavailableError, match=r"exited with 1(.|\n)*no such operation"):
        export_program(TINY, 100, tmp_path)
    child(monkeypatch, 0, None)
    with pytest.raises(UnavailableError):
        export_program(TINY, 100, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_converter_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: list[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    child(monkeypatch, 0, None)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UnavailableError, match="took more than"):
        export_program(TINY, 100, tmp_path)


def test_a_folder_that_cannot_be_written_and_an_impossible_size_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(monkeypatch, 0, b"program")
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(UnavailableError, match="cannot keep programs"):
        export_program(TINY, 100, blocked)
    with pytest.raises(LocalProtocolError):
        export_program(TINY, 2_001, tmp_path)


@pytest.mark.tensorflow
def test_a_graph_that_cannot_be_converted_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="exporting a program needs TensorFlow")
    impossible = ModelConfiguration("impossible", max_vocabulary=50, embedding=4, hidden=4, sequence_length=0)
    with pytest.raises(UnavailableError, match="failed"):
        export_program(impossible, 50, tmp_path)
