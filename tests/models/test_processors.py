"""Where TensorFlow calculates, on machines that show a GPU and on machines that do not."""

import json
import subprocess
import sys

import pytest

from models import processors
from models.processors import Processor, choose, environment, look
from wire.errors import ConfigError


@pytest.fixture
def a_gpu_s_files(tmp_path):
    (tmp_path / "nvidia0").touch()
    return tmp_path


def test_without_a_gpu_the_cpu_is_used_and_tensorflow_is_not_imported(tmp_path):
    (tmp_path / "nvidiactl").touch()  # the driver may be there without a card
    chosen = choose(Processor.AUTO, tmp_path)
    assert (chosen.gpu, chosen.name, chosen.remedy, chosen.tensorflow) == (False, "CPU", "", "")
    assert "no GPU" in chosen.why


def test_who_asks_for_the_cpu_gets_it_and_no_process_sees_a_gpu(a_gpu_s_files):
    assert choose(Processor.CPU, a_gpu_s_files).why == "the configuration says so"
    assert environment(Processor.CPU, {"HOME": "/"})["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "CUDA_VISIBLE_DEVICES" not in environment(Processor.AUTO, {"HOME": "/"})


def test_who_asks_for_a_gpu_is_refused_without_one(tmp_path):
    with pytest.raises(ConfigError, match="no GPU"):
        choose(Processor.GPU, tmp_path)
    assert not look(Processor.GPU, tmp_path).gpu


def test_a_gpu_that_tensorflow_cannot_use_has_a_remedy(a_gpu_s_files, monkeypatch):
    monkeypatch.setattr(processors, "find_spec", lambda _name: None)
    chosen = choose(Processor.AUTO, a_gpu_s_files)
    assert (chosen.gpu, chosen.why) == (False, "TensorFlow is not installed")
    assert "tensorflow-gpu" in chosen.remedy


def test_a_gpu_that_is_hidden_is_not_used(a_gpu_s_files, monkeypatch):
    monkeypatch.setattr(processors, "find_spec", lambda name: name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "hides" in choose(Processor.AUTO, a_gpu_s_files).why


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_tensorflow_that_sees_no_gpu_says_what_it_lacks(a_gpu_s_files):
    code = (
        "import pathlib, msgspec, sys; from models.processors import *; "
        "found = look(Processor.AUTO, pathlib.Path(sys.argv[1])); print(msgspec.json.encode(found).decode())"
    )
    environment_of_child = environment(Processor.AUTO, {"PYTHONPATH": "."})
    done = subprocess.run(
        [sys.executable, "-c", code, str(a_gpu_s_files)], capture_output=True, env=environment_of_child, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["gpu"]:  # a machine with one runs this test, too
        assert "built without CUDA" in found["why"] or "sees no GPU" in found["why"]
        assert found["remedy"]
    assert found["tensorflow"]
