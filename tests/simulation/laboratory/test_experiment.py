import tomllib
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from nightjar.coordinator.tasks.fleets import SETTINGS, FleetSize
from nightjar.simulation.laboratory.experiment import Experiment, read_experiment
from nightjar.wire.errors import ConfigError

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
DEFAULT, HOUSEHOLD = EXPERIMENTS / "default.toml", EXPERIMENTS / "household.toml"
PLACES = {"task.goal": "cohort.size", "task.minimum": "gate.minimum", "task.patience": "gate.patience"}


@pytest.mark.parametrize(("file", "fleet"), [(DEFAULT, FleetSize.HUNDREDS), (HOUSEHOLD, FleetSize.HOUSEHOLD)])
def test_an_experiment_is_what_init_writes_for_a_fleet_of_its_size(file, fleet):
    experiment, shown = read_experiment(file), tomllib.loads(file.read_text())
    for name, value in SETTINGS[fleet].items():
        place = PLACES.get(name, name.removeprefix("task."))
        if place.startswith("limits.") or (place.startswith("gate.") and not experiment.gate.keyboards):
            continue
        found = attrgetter(place)(experiment)
        assert getattr(found, "value", found) == value, name
        assert place.split(".")[0] in shown, "a reader should not have to look it up"


def test_the_start_of_the_default_experiment_is_that_of_public_text():
    experiment = read_experiment(DEFAULT)
    assert (experiment.split.public_people, experiment.start.passes) == (0.1, 3.0)


def test_settings_override_the_file(tmp_path):
    experiment = read_experiment(
        DEFAULT, ["strategy.name=fedadam", "strategy.server_learning_rate=0.01", "cohort.size=5"]
    )
    assert (experiment.strategy.name, experiment.strategy.choice().learning_rate) == ("fedadam", 0.01)
    assert experiment.cohort.size == 5
    assert msgspec.structs.replace(experiment, corpus="x").corpus == "x"


def test_all_faults_are_reported_at_once(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("round = 5\n[plan]\nlearning_rate = -1\n")
    with pytest.raises(ConfigError) as refused:
        read_experiment(path, ["strategy.nme=x", "novalue"])
    message = str(refused.value)
    for part in (
        "round",
        "plan.learning_rate",
        "strategy.nme: there is no such setting; did you mean 'strategy.name'",
        "expected KEY=VALUE",
        "4 fault(s)",
    ):
        assert part in message, message


def test_values_that_contradict_each_other_are_faults(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(
        'model = "huge"\n[split]\ntrain = 0.9\nvalidation = 0.1\n[codec]\nname = "mask-9"\n[start]\npasses = 1\n'
        '[cohort]\ncandidates = 3\n[strategy]\nname = "fedsgd"\naggregation = "multi-krum"\n'
        "attackers = 0.45\n[plan]\nlocal_epochs = 2\n"
    )
    with pytest.raises(ConfigError) as refused:
        read_experiment(path)
    for part in (
        "expected one of tiny, gboard",
        "leave a part for the test",
        "split.public_people",
        "codec.name",
        "cohort.candidates",
        "strategy fedsgd",
        "strategy.aggregation: multi-krum",
        "7 fault(s)",
    ):
        assert part in str(refused.value)


def test_what_differential_privacy_excludes_is_a_fault(tmp_path):
    path = tmp_path / "private.toml"
    path.write_text('privacy = "dp"\n[cohort]\ncandidates = 60\n[strategy]\naggregation = "fed-plus"\n')
    with pytest.raises(ConfigError) as refused:
        read_experiment(path, ["plan.evaluation_share=0.1"])
    for part in ("cohort.candidates: who takes part", "strategy.aggregation", "plan.evaluation_share", "3 fault(s)"):
        assert part in str(refused.value)


def test_what_needs_or_excludes_time_is_a_fault(tmp_path):
    path = tmp_path / "buffered.toml"
    path.write_text('mode = "buffered"\nstaleness = "linear"\nprivacy = "secure-sum"\n[cohort]\nover_selection = 1.3\n')
    with pytest.raises(ConfigError) as refused:
        read_experiment(path, ["cohort.candidates=26"])
    for part in (
        "mode: buffered needs time.training_s",
        "privacy: expected none",
        "cohort.candidates: there is no cohort",
        "cohort.over_selection: who reports first",
        "staleness: expected constant, or polynomial",
        "5 fault(s)",
    ):
        assert part in str(refused.value)
    path.write_text('privacy = "secure-sum"\n[strategy]\nclip_quantile = 0.9\n')
    with pytest.raises(ConfigError, match=r"strategy\.clip_quantile: devices of a secure sum clip at the median"):
        read_experiment(path, [])
    path.write_text('[cohort]\navailability = "generated"\n')
    with pytest.raises(ConfigError, match=r"time\.training_s: expected 0"):
        read_experiment(path, ["time.training_s=30"])


def test_what_a_gate_needs_is_a_fault_without_it(tmp_path):
    path = tmp_path / "household.toml"
    path.write_text("[gate]\nkeyboards = true\n[cohort]\nsize = 4\n[split]\nheld_out_people = 0.0\n")
    with pytest.raises(ConfigError) as refused:
        read_experiment(path, ["plan.evaluation_share=0", "downlink=topk-8", "evaluation.average_rounds=5"])
    for part in (
        "set start.pretrained",
        "plan.evaluation_share of the messages, which is 0",
        "split.held_out_people, who are none",
        "gate.minimum: expected at most cohort.size (4)",
        "the downlink f32",
        "evaluation.average_rounds = 1",
        "6 fault(s)",
    ):
        assert part in str(refused.value)
    path.write_text("[start]\npretrained = true\npasses = 1\n[split]\nmost_active = 4\n")
    with pytest.raises(ConfigError, match="expected passes or pretrained, not both"):
        read_experiment(path, [])


def test_the_experiment_has_the_parts_that_a_file_names():
    assert Experiment.__struct_fields__ == (
        "corpus",
        "model",
        "rounds",
        "split",
        "start",
        "cohort",
        "mode",
        "buffer",
        "concurrency",
        "staleness",
        "max_staleness",
        "time",
        "strategy",
        "codec",
        "plan",
        "downlink",
        "privacy",
        "dp",
        "minimum_separation",
        "people",
        "evaluation",
        "personal",
        "gate",
    )


def test_error_feedback_is_ignored_with_a_warning(capsys):
    assert read_experiment(DEFAULT, ["codec.error_feedback=true"]) == read_experiment(DEFAULT)
    assert "codec.error_feedback is ignored" in capsys.readouterr().err
