"""What the agent imports must not bring TensorFlow along."""

import subprocess
import sys

import pytest

PURE = (
    "models",
    "nightjar.models.vocabulary",
    "nightjar.models.batches",
    "nightjar.models.configurations",
    "nightjar.models.manifest",
    "nightjar.models.initial",
    "nightjar.models.ngram",
    "nightjar.models.corpora",
    "nightjar.models.export",
)


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_do_not_import_tensorflow(module: str) -> None:
    program = f"import sys, {module}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
