"""A phone among fakes; and a real exported model for tests marked ``tflite``, also where there is no TensorFlow."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.models.folder import MANIFEST
from tests.edge_agent.fakes import Phone
from tests.side_by_side import made_once

ROOT = Path(__file__).parents[2]


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path)


@dataclass(frozen=True)
class Exported:
    """An exported model: as files for a loader, and as bytes by hash for a server."""

    model: Model
    artifacts: dict[str, bytes]
    words: list[str]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = _folder(tmp_path_factory)
    model = exported_model(folder)
    files = (folder / MANIFEST, model.program, model.weights, model.vocabulary, *model.lexicons.values(), model.ngram)
    artifacts = {hashlib.sha256(data).hexdigest(): data for data in (path.read_bytes() for path in files if path)}
    return Exported(model, artifacts, model.vocabulary.read_text().split())


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("NIGHTJAR_TEST_ARTIFACTS")
    if given:
        return Path(given)
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip(
            "no exported program: there is no TensorFlow here, and NIGHTJAR_TEST_ARTIFACTS does not name a folder "
            "made by `python -m nightjar.models export --passes 0 --out FOLDER`"
        )
    return made_once(tmp_path_factory, "exported", _export)


def _export(folder: Path) -> None:
    # In a child, so that this process stays without TensorFlow as the agent does.
    command = [
        sys.executable,
        "-m",
        "nightjar.models",
        "export",
        "--model",
        "tiny",
        "--corpus",
        "personas",
        "--passes",
        "0",
        "--out",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
