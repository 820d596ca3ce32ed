import msgspec
import pytest

from simulation.demo.replay import longest_run
from wire.errors import ConfigError


def test_the_longest_run_with_a_curve_is_replayed(tmp_path):
    short, long = ({"name": n, "curve": [[0, 0.0, 0.0], [n, 0.1, 0.2]], "rounds": 9} for n in (5, 50))
    runs = [each | {"name": f"{each['name']} rounds"} for each in (short, long)]
    path = tmp_path / "results.json"
    path.write_bytes(msgspec.json.encode([{"name": "without"}, *reversed(runs)]))
    found = longest_run(path)
    assert (found.name, found.rounds, found.curve[-1].top3) == ("50 rounds", 50, 0.2)


def test_what_is_committed_can_be_replayed():
    assert longest_run().rounds > 100


@pytest.mark.parametrize(("content", "message"), [("[]", "has a curve"), ("{", "cannot be read")])
def test_without_a_curve_there_is_nothing_to_replay(tmp_path, content, message):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        longest_run(tmp_path / "results.json")
