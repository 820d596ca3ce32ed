import shutil

import pytest


@pytest.fixture
def run_folder(tmp_path_factory):
    """A folder for a whole run: models and databases, removed afterwards so that runs do not fill the disk."""
    folder = tmp_path_factory.mktemp("run")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
