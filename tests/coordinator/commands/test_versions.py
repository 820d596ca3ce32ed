"""``model``: what is shown of versions, and the formats that they are written in."""

import hashlib
import json
import stat

import pytest
from msgspec.structs import replace
from safetensors.numpy import load_file

from nightjar.coordinator.learning.device_metrics import keystrokes, merged, tally
from nightjar.coordinator.records.versions import Lineage
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.model_folder import check_model
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.errors import ConfigError
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from tests.coordinator.model_folder import INITIAL, LAYOUT


@pytest.fixture
def known(site):
    """Version 1 with all that can be known of it."""
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_version(replace(tx.version(0), rollout=Rollout(stage=Stage.SUPERSEDED, reason="by version 1")))
        tx.save_version(
            replace(
                tx.version(1),
                rollout=Rollout(stage=Stage.CURRENT, reason="the gate found no fault", since_s=5.0),
                lineage=Lineage(parent=0, reports=2, reports_sha256="c" * 64, seed=7, code_version="0.1.0"),
            )
        )
        one = tally([LocalEvaluation(100, 20, 40, 25, 45, 5.0, 4.5)])
        tx.save_federated(1, merged(one, replace(one, tried=3, failures={"diverged": 1})))
    database.close()


def test_versions_are_listed_with_where_they_are(ask, known):
    rows = ask("model", "list")
    assert [(row["version"], row["stage"], row["top1"]) for row in rows] == [
        (0, "superseded", 0.1),
        (1, "current", 0.25),
    ]
    assert rows[1]["federated"]["top1_before"] == {"mean": 0.2, "p10": 0.2, "p50": 0.2, "p90": 0.2}


def test_a_version_is_shown_with_what_it_was_made_of_and_what_was_found_of_it(ask, run, site, known):
    shown = ask("model", "show", 1)
    assert (shown["stage"], shown["reason"]) == ("current", "the gate found no fault")
    assert (shown["lineage"]["parent"], shown["lineage"]["reports"]) == (0, 2)
    assert shown["round"] == 1
    assert (shown["federated"]["devices"], shown["federated"]["failures"]) == (2, {"diverged": 1})
    status, out, _ = run("model", "show", 1, "--config", site.config)
    assert status == 0
    assert "the gate found no fault" in out


def test_what_keyboards_save_is_listed_and_shown(ask, run, site, known):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        found = keystrokes([KeyboardEvaluation(200, 62, 0, 58), KeyboardEvaluation(200, 64, 0, 60)])
        tx.save_federated(1, merged(tx.federated(1), found))
    database.close()
    shown = ask("model", "show", 1)["federated"]
    assert shown["saved"] == {"devices": 2, "mean": 31.5, "error": 0.5}
    assert shown["gain_over"] == {"0": {"devices": 2, "mean": 2.0, "error": 0.0}}
    status, out, _ = run("model", "list", "--config", site.config)
    assert (status, "31.5 ± 0.5 %" in out) == (0, True)


def test_a_version_without_anything_known_is_shown_too(ask):
    shown = ask("model", "show", 0)
    assert (shown["lineage"], shown["federated"]["devices"]) == (None, 0)


def test_a_version_is_written_as_safetensors(ask, tmp_path):
    answer = ask("model", "export", 1, "--to", "safetensors", "--out", tmp_path / "out" / "model.safetensors")
    assert answer["format"] == "safetensors"
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {name: value.shape for name, value in tensors.items()} == {spec.name: spec.shape for spec in LAYOUT.tensors}
    assert sum(value.sum() for value in tensors.values()) == pytest.approx(INITIAL.sum(), abs=1e-4)


def test_the_average_of_a_version_and_those_before_it_is_exported(ask, run, site, known, tmp_path):
    answer = ask("model", "export", 1, "--average", 2, "--out", tmp_path / "mean")
    assert check_model(tmp_path / "mean").sha256 == answer["manifest"]
    status, _, err = run("model", "export", 1, "--average", 3, "--out", tmp_path / "more", "--config", site.config)
    assert (status, "expected at most 2, version 1 and those before it, which have files; got 3" in err) == (2, True), (
        err
    )
    assert not (tmp_path / "more").exists()


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_version_is_written_as_a_saved_model(ask, tmp_path):
    ask("model", "export", 1, "--to", "saved-model", "--out", tmp_path / "saved")
    assert (tmp_path / "saved" / "saved_model.pb").is_file()


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_version_is_measured_on_any_text(ask, run, site, tmp_path):
    text = tmp_path / "text.tsv"
    text.write_text("user\ttext\n" + "".join(f"ann\tthe cat sat the dog ran a cat {n}\n" for n in range(30)))
    found = ask("model", "evaluate", 1, "--text", text)
    assert 0 <= found["metrics"]["top1"] <= found["metrics"]["top3"] <= 1
    status, out, _ = run("model", "evaluate", 1, "--text", text, "--config", site.config)
    assert status == 0
    assert "top-1 recall" in out


@pytest.mark.tensorflow
@pytest.mark.slow
def test_what_versions_are_compared_with_is_measured_kept_and_noted(ask, run, site, tmp_path):
    sentences = ("the cat sat", "the dog ran", "a cat ran")
    for name, count in (("corpus", 40), ("text", 5)):
        lines = [f"ann\t{sentence}" for _ in range(count) for sentence in sentences]
        (tmp_path / f"{name}.tsv").write_text("user\ttext\n" + "\n".join(lines) + "\n")
    text = tmp_path / "text.tsv"
    site.config.write_text(site.config.read_text().replace("[task]\n", f'[task]\nevaluation_text = "{text}"\n'))
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_held_out_text(hashlib.sha256(text.read_bytes()).hexdigest())  # as the service does when it starts
    command = ["model", "baseline", "--corpus", tmp_path / "corpus.tsv", "--epochs", 20]
    status, out, err = run(*command, "--config", site.config, "--json")
    assert status == 0, err
    assert "central training: 100 %" in err
    measured = json.loads(out)["measured"]
    assert measured["messages"] == 120
    assert measured["central"]["loss"] < measured["before"]["loss"]
    assert measured["trigram"]["top1"] > 0.4
    with database.transaction() as tx:
        assert tx.baselines().measured.central.top1 == measured["central"]["top1"]
        assert tx.audit(1)[0].action == "measure-baselines"
        tx.save_held_out_text("another")
        assert tx.baselines() is None, "on other words it says nothing"
    database.close()


@pytest.mark.tensorflow
def test_a_corpus_that_is_not_there_is_said_and_nothing_is_kept(run, site, tmp_path):
    text = tmp_path / "text.tsv"
    text.write_text("user\ttext\nann\tthe cat\n")
    site.config.write_text(site.config.read_text().replace("[task]\n", f'[task]\nevaluation_text = "{text}"\n'))
    status, out, err = run("model", "baseline", "--corpus", tmp_path / "none.tsv", "--config", site.config)
    assert (status, out) == (ConfigError.exit_status, "")
    assert "there is no corpus file" in err


def test_without_a_text_nothing_is_measured(run, site):
    status, _, err = run("model", "evaluate", 1, "--config", site.config)
    assert status == ConfigError.exit_status
    assert "--text" in err
    status, _, err = run("model", "evaluate", 1, "--text", "txet.tsv", "--config", site.config)
    assert (status, "got txet.tsv, which is no file" in err) == (ConfigError.exit_status, True)


def test_the_public_key_is_shown_and_made_once(ask, site):
    key = ask("model", "key")["coordinator_key"]
    assert len(bytes.fromhex(key)) == 32
    assert ask("model", "key")["coordinator_key"] == key
    assert stat.S_IMODE((site.data / "signing.pem").stat().st_mode) == 0o600


@pytest.mark.parametrize("command", [("show", 9), ("evaluate", 9, "--text", __file__), ("export", 9, "--out", "x")])
def test_a_version_that_is_not_there_is_said(run, site, command):
    status, _, err = run("model", *command, "--config", site.config)
    assert status == ConfigError.exit_status
    assert "there is no version 9; 'model list' shows the newest" in err
