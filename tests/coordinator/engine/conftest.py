"""A world of fakes with a model."""

import pytest

from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    return lambda **fields: World(manifest, tmp_path, **{"evaluation_text": tmp_path / "manifest.json", **fields})
