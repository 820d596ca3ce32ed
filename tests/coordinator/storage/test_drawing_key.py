"""Who is drawn depends on a secret that is made once, stays, and is not the configuration's seed."""

import contextlib
import stat
from collections import Counter

import pytest

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.rounds.selection import sample
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.drawing_key import FILE, load_draw_seeds
from nightjar.coordinator.storage.engine import database_file
from nightjar.host.put_away import notes
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.test_service import Service

HONEST = [DeviceId(f"pi-{number}") for number in range(100)]
ROUNDS = 50


def drawn(name: str, seed_of_draw) -> int:
    """In how many rounds a name is drawn among a hundred others, of whom each round takes three."""
    return sum(name in sample([*HONEST, DeviceId(name)], 3, seed_of_draw(number), number) for number in range(ROUNDS))


def test_a_name_that_was_chosen_by_the_configurations_seed_is_drawn_no_oftener_than_others(tmp_path):
    """The attack: of 150 names the best one by seed 7, which stands in every configuration file."""
    known = CoordinatorConfig(task=TaskConfig(model=tmp_path)).seed
    names = [f"pi-{number % 100}-{number}" for number in range(150)]  # a name counts by its place among the others
    best = max(names, key=lambda name: drawn(name, lambda _number: known))
    assert drawn(best, lambda _number: known) >= 6
    folders = [tmp_path / str(number) for number in range(40)]
    times = [drawn(best, load_draw_seeds(folder)) for folder in folders]
    fair = ROUNDS * 3 / 101
    assert sum(times) / len(times) == pytest.approx(fair, abs=4 * (fair / len(times)) ** 0.5)


@pytest.mark.broker
def test_the_service_draws_by_the_key_of_its_folder(tmp_path):
    with Service(tmp_path, "embedded") as service:
        service.wait_until(lambda: "event=round_opened" in (tmp_path / "log").read_text(), "a round")
    data = tmp_path / "data"
    with (
        contextlib.closing(Database(f"sqlite:///{database_file(data)}")) as database,
        database.transaction() as tx,
    ):
        (state,) = tx.open_rounds()
    assert state.seed == load_draw_seeds(data)(state.number), "whoever knows the configuration foresees the draw"


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path):
    first = [load_draw_seeds(tmp_path)(number) for number in range(20)]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert [load_draw_seeds(tmp_path)(number) for number in range(20)] == first
    assert max(Counter(first).values()) == 1
    assert all(0 <= seed < 2**63 for seed in first)
    (tmp_path / FILE).unlink()
    assert [load_draw_seeds(tmp_path)(number) for number in range(20)] != first


def test_a_key_that_others_may_read_or_that_is_damaged_is_put_away_for_another(tmp_path):
    known = load_draw_seeds(tmp_path)(1)
    (tmp_path / FILE).chmod(0o640)
    assert load_draw_seeds(tmp_path)(1) != known
    (tmp_path / FILE).write_bytes(b"short")
    assert load_draw_seeds(tmp_path)(1) != known
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    first, second = notes(tmp_path)
    assert "others may read it" in first
    assert "expected 32 bytes, got 5" in second
