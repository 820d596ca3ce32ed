"""Plug-ins of installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from nightjar.coordinator.learning.strategies import StrategyChoice, optimizer_for, strategies
from nightjar.coordinator.tasks.settings import CodecConfig, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import task_faults
from nightjar.wire.codec import codec_for
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from nightjar.wire.limits import Limits
from nightjar.wire.messages import CodecChoice
from nightjar.wire.plugins import found
from tests.coordinator.model_folder import LAYOUT
from tests.other_package import TIDES, installed, write_package


@pytest.fixture
def tides(tmp_path, monkeypatch):
    with installed(tmp_path, monkeypatch, *TIDES):
        yield


def test_a_plug_in_is_found_with_its_package_and_one_that_cannot_be_loaded_says_why(tmp_path, monkeypatch):
    points = "[nightjar.tests]\nrain = weather:Rain\nsnow = weather:Snow\n"
    with installed(tmp_path, monkeypatch, "weather", points, "class Rain:\n    falls = True\n"):
        table = found("nightjar.tests", {})
    assert table["rain"].value.falls
    assert (table["rain"].package, table["rain"].version) == ("weather", "1.2")
    assert "Snow" in table["snow"].fault


@pytest.mark.usefixtures("tides")
def test_a_strategy_of_another_package_moves_the_weights():
    optimizer = optimizer_for(StrategyChoice(name="halved", learning_rate=1.0))
    weights, _ = optimizer.apply(np.zeros(2, np.float32), np.array([4.0, -2.0]), optimizer.init(2))
    assert weights.tolist() == [2.0, -1.0]
    assert "not_one" not in strategies()


@pytest.mark.usefixtures("tides")
def test_a_codec_of_another_package_encodes_updates_and_its_density_counts_as_one():
    codec = codec_for(CodecChoice(name="signs"))
    delta = np.linspace(-1, 1, LAYOUT.size, dtype=np.float32)
    payload = codec.write(delta, LAYOUT, np.random.default_rng(0)).payload()
    assert codec.decode(payload, LAYOUT).values.tolist() == np.where(delta >= 0, 1, -1).tolist()
    assert to_name() == ("bound-sum", "sampled-4", "signs")
    wanted = TaskSettings(codec=CodecConfig(name="signs"), strategy=StrategyConfig(name="halved"))
    assert task_faults(wanted, Limits(density=1.0), measured=False, enrolled=True) == []
    (fault,) = task_faults(wanted, Limits(), measured=False, enrolled=True)
    assert "density" in fault


def test_a_name_that_nobody_brings_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match="expected one of the strategies fedsgd, fedavg"):
        optimizer_for(StrategyChoice(name="halved", learning_rate=1.0))
    with pytest.raises(RemoteProtocolError, match="expected one of the codecs dense-f32"):
        codec_for(CodecChoice(name="signs"))
    wanted = TaskSettings(codec=CodecConfig(name="signs"), strategy=StrategyConfig(name="halved"))
    faults = task_faults(wanted, Limits(density=1.0), measured=False, enrolled=True)
    assert [fault.partition(":")[0] for fault in faults] == ["codec.name", "strategy.name"]


@pytest.mark.parametrize("program", ["coordinator", "edge_agent"])
def test_both_programs_list_their_plug_ins_with_versions_and_faults(program, tmp_path):
    path = os.pathsep.join([str(write_package(tmp_path, *TIDES)), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", program, "plugins", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    listed = {(each["kind"], each["name"], each["package"]): each for each in json.loads(done.stdout)}
    ours, theirs = "nightjar-federated", "tides"
    assert listed["codec", "signs", theirs] | {"version": "1.2", "fault": ""} == listed["codec", "signs", theirs]
    assert "the wire id 200 is taken" in listed["codec", "signs_again", theirs]["fault"]
    assert f"the name 'topk-4' is taken by {ours}" in listed["codec", "topk-4", theirs]["fault"]
    assert "NOTHING" in listed["codec", "missing", theirs]["fault"]
    assert listed["codec", "topk-4", ours]["fault"] == ""
    assert listed["task type", "classification", ours]["fault"] == ""
    if program == "coordinator":
        assert listed["strategy", "halved", theirs]["fault"] == ""
        assert f"taken by {ours}" in listed["strategy", "fedavg", theirs]["fault"]
        assert "expected a function" in listed["strategy", "not_one", theirs]["fault"]
