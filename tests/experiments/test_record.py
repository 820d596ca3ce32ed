import msgspec
import pytest
from click.testing import CliRunner

from nightjar.experiments import record
from nightjar.wire.errors import ConfigError

OUTCOME = {
    "experiment": "x",
    "model": "tiny",
    "parameters": 5,
    "rounds": 2,
    "seeds": [1, 2],
    "part": "test",
    "top1_start": 0.0,
    "top1": 0.15,
    "top3": 0.25,
    "top1_spread": 0.01,
    "held_out_top1": None,
    "held_out_top3": None,
    "perplexity": 80.0,
    "trigram_top1": None,
    "trigram_top3": None,
    "central_top1": 0.2,
    "central_top3": 0.3,
    "report_bytes_median": 100,
    "bytes_down_median": 200,
    "executor": "in-process",
    "workers": 1,
    "seconds": 1.0,
}

CURVE = ['{"round": 0, "loss": 7.0, "top1": 0.0, "top3": 0.0}', '{"round": 2, "loss": 6.0, "top1": 0.1, "top3": 0.2}']


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")

    def make(name, outcomes, curves=(CURVE, CURVE)):
        for seed, curve in enumerate(curves, 1):
            (tmp_path / f"seed-{seed}").mkdir(exist_ok=True)
            (tmp_path / f"seed-{seed}" / "metrics.jsonl").write_text("\n".join(curve))
        (tmp_path / "outcome.json").write_bytes(msgspec.json.encode(outcomes))
        arguments = [name, str(tmp_path), "--command", "learn", "--commit", "1a2b3c4"]
        CliRunner().invoke(record.main, arguments, catch_exceptions=False)
        return record.results()

    return make


def test_a_result_is_kept_beside_the_model_trained_in_one_place_and_replaced_under_its_name(made):
    made("b", [OUTCOME])
    made("a", [OUTCOME])
    found = made("b", [OUTCOME | {"top1": 0.17}])
    assert [(each.name, each.measured) for each in found] == [("a", 0.15), ("b", 0.17)]
    assert found[1].delta_accuracy == pytest.approx(0.03)
    assert (found[0].pooled, found[0].printed, found[0].seeds, found[0].commit) == (0.2, None, [1, 2], "1a2b3c4")


@pytest.mark.parametrize(("outcomes", "message"), [([OUTCOME] * 2, "2 outcomes"), ({}, "no outcome")])
def test_what_is_no_single_outcome_is_refused(made, outcomes, message):
    with pytest.raises(ConfigError, match=message):
        made("a", outcomes)


def test_the_curve_is_the_mean_of_its_seeds(made):
    other = [CURVE[0], CURVE[1].replace("0.1", "0.3")]
    (found,) = made("a", [OUTCOME], curves=(CURVE, other))
    assert [(point.round, point.top1, point.top3) for point in found.curve] == [(0, 0.0, 0.0), (2, 0.2, 0.2)]


def test_a_run_without_a_curve_is_refused_and_a_result_recorded_without_one_is_read(made, tmp_path):
    with pytest.raises(ConfigError, match="no curve"):
        made("a", [OUTCOME], curves=(["{"], CURVE))
    (found,) = made("a", [OUTCOME])
    old = {key: value for key, value in msgspec.to_builtins(found).items() if key != "curve"}
    (tmp_path / "results.json").write_bytes(msgspec.json.encode([old]))
    assert record.results()[0].curve == []
