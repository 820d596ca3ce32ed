import msgspec
import pytest

from nightjar.simulation.demo.replay import best_run
from nightjar.wire.errors import ConfigError


def test_the_best_run_with_a_curve_is_replayed(tmp_path):
    overfit, best = (
        {"name": name, "curve": [[0, 0.0, 0.0], [rounds, top1, 0.2]]}
        for name, rounds, top1 in (("overfit", 60, 0.1), ("best", 30, 0.15))
    )
    path = tmp_path / "results.json"
    path.write_bytes(msgspec.json.encode([{"name": "without"}, best, overfit]))
    found = best_run(path)
    assert (found.name, found.rounds, found.curve[-1].top3) == ("best", 30, 0.2)


def test_what_is_committed_can_be_replayed():
    assert best_run().rounds > 100


@pytest.mark.parametrize(("content", "message"), [("[]", "has a curve"), ("{", "cannot be read")])
def test_without_a_curve_there_is_nothing_to_replay(tmp_path, content, message):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        best_run(tmp_path / "results.json")
