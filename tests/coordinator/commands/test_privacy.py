"""``privacy explain``: in words and figures, who can learn what."""

import json

import pytest
from click.testing import CliRunner

from nightjar.coordinator.__main__ import cli
from nightjar.coordinator.tasks.privacy import explained
from nightjar.coordinator.tasks.settings import Privacy
from tests.coordinator.model_folder import write_model

SUMMED = """transport = "tls"
[task]
model = "model"
privacy = "secure-sum"
"""
READ = '[task]\nmodel = "model"\n'


@pytest.fixture
def asked(tmp_path):
    write_model(tmp_path / "model")

    def ask(text, *arguments):
        path = tmp_path / "coordinator.toml"
        path.write_text(text)
        return CliRunner().invoke(cli, ["privacy", "explain", *arguments, "--config", str(path)])

    return ask


def test_it_says_that_reports_are_read(asked):
    said = asked(READ)
    assert said.exit_code == 0
    words = " ".join(said.output.split())
    assert "reads each device's report: an attack names 94 %" in words
    assert "how many keystrokes it saves with two versions" in words
    assert 'privacy = "secure-sum" would hide single reports' in words, "ten devices are enough"


def test_it_says_that_only_sums_are_learned_and_what_they_reveal(asked):
    answer = json.loads(asked(SUMMED, "--json").output)
    assert (answer["task"], answer["ledger"]) == ("keyboard", None)
    first = answer["explained"][0]
    assert "together with 4 of the devices, learns the sum of 16 or more reports" in first
    assert "of 5 devices, an attack names 92 %" in first, "the largest cohort that was measured and is not larger"


def test_it_says_of_noised_sums_what_they_promise_and_who_sees_what(asked):
    noised = SUMMED.replace("secure-sum", "secure-dp") + "rounds = 500\nminimum_separation = 100\n"
    answer = json.loads(asked(noised, "--json").output)
    assert answer["ledger"]["epsilon"] == pytest.approx(10, abs=0.01)
    words = " ".join(answer["explained"])
    assert "after 500 rounds: epsilon 10.0" in words
    assert "the sum of 16 or more reports with the noise that the devices add" in words
    assert "says which words were typed" not in words


def test_a_task_that_is_not_there_is_named(asked):
    said = asked(READ, "nothing")
    assert said.exit_code != 0


@pytest.mark.parametrize("privacy", Privacy)
def test_every_kind_of_privacy_is_explained(privacy):
    said = " ".join(explained(privacy, 2, 2))
    assert len(explained(privacy, 2, 2)) >= 3
    assert ("4.0 % top-1" in said) == privacy.summed, "a household is not told of sums"
