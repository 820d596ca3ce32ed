"""Years in short: everything of the plan happens, and no report is lost."""

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from nightjar.models.manifest import Manifest
from nightjar.simulation.commands import commands
from nightjar.simulation.rounds.logs import errors_counted
from nightjar.simulation.year.command import year
from nightjar.simulation.year.outcome import YearOutcome, YearSettings
from nightjar.simulation.year.plan import COORDINATOR_OFF_S, DAY_S, PlannedEvent, YearEvent
from nightjar.simulation.year.reports import ReportBook
from nightjar.simulation.year.result import growth_percent, remarks, year_result
from nightjar.simulation.year.task import DailyWindows
from nightjar.simulation.year.world import YearWorld, size_of
from tests.skips import NO_HISTORY

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "simulation.md").read_text()
FORMER = "f3b79ff1"
"""Before everything was imported as ``nightjar``."""
EVALUATED = ("--rules", str(ROOT / "deploy/prometheus/alerts.yml")) if shutil.which("promtool") else ()
"""The rules of ``deploy/``, where Prometheus is installed, as in CI."""


def run(*options):
    done = CliRunner().invoke(commands, ["year", "--json", *options])
    return msgspec.json.decode(done.stdout), done


@pytest.fixture
def world(tmp_path):
    with errors_counted() as errors:
        made = YearWorld(YearSettings(1, days=2, devices=50), tmp_path)
        made.start()
        yield made
    made.coordinator.database.close()
    assert errors.unexpected == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rounds_leave_versions_and_reports_in_the_products_own_files(world, tmp_path):
    assert world.timeline.run(lambda: len(world.book.commits_s) >= 3, 6 * 3600.0)
    with world.coordinator.database.transaction() as tx:
        current = tx.current_version()
        reports = [len(tx.reports(number)) for number in range(1, 10)]
    assert (current.version, [count for count in reports if count]) == (3, [12, 12, 12])
    manifest = Manifest.decode(world.coordinator.artifacts.get(current.manifest))
    weights = world.coordinator.artifacts.path(manifest.weights.sha256)
    assert weights.stat().st_size == 4 * manifest.layout.size
    assert weights.stat().st_blocks * 512 < manifest.weights.size_bytes / 10
    assert size_of(tmp_path / "coordinator") > 4 * manifest.weights.size_bytes
    assert len(list((tmp_path / "devices").glob("*/agent.db"))) == 50
    assert world.book.lost == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_database_that_is_away_ends_the_process_and_no_report_is_lost(world):
    world.timeline.run(lambda: len(world.book.commits_s) >= 1, 6 * 3600.0)
    world.coordinator.take_database_away(1800.0)
    world.timeline.run(lambda: bool(world.alerts.seen), world.timeline.now_s + 1800.0)
    assert set(world.alerts.seen) == {"NightjarUnhealthy"}
    assert world.timeline.run(lambda: len(world.book.commits_s) >= 3, world.timeline.now_s + 6 * 3600.0)
    assert world.coordinator.restarts > 0
    assert (world.book.lost, world.book.twice) == ([], [])


@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_two_days_have_every_event_and_lose_nothing(tmp_path):
    so_far, folder = tmp_path / "so-far.json", tmp_path / "folder"
    folder.mkdir()
    options = (
        "--days",
        "2",
        "--devices",
        "50",
        "--seed",
        "3",
        "--folder",
        str(folder),
        "--so-far",
        str(so_far),
        *EVALUATED,
    )
    result, done = run(*options)
    assert set(result["faults_thrown"]) == {event.value for event in YearEvent}, done.stderr
    assert (result["reports_lost"], result["reports_counted_twice"]) == (0, 0)
    assert result["reports_accepted"] > 0
    assert result["rounds_committed"] + result["rounds_missed"] >= 2 * 90
    assert list(folder.iterdir()) == []
    written = msgspec.json.decode(so_far.read_bytes())
    assert (written["days"], written["reports_accepted"]) == (2, result["reports_accepted"])
    assert not EVALUATED or {"NightjarDown", "NightjarUnhealthy"} <= set(result["alerts_by_rule"]), done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_days_of_five_hundred_devices_keep_to_their_bars():
    result, done = run("--days", "10")
    assert set(result["faults_thrown"]) == {event.value for event in YearEvent}, done.stderr
    assert (result["reports_lost"], result["reports_counted_twice"]) == (0, 0), done.stderr
    assert (result["visits_needed"], result["faults_without_alert"]) == (0, 0), done.stderr
    assert result["disk_bytes"] < 2e9
    assert result["rounds_missed"] < 0.08 * 960, done.stderr  # a database and a broker were away for hours


def test_devices_are_free_evenly_over_the_day():
    windows, free = DailyWindows(1, 500), []
    for hour in range(24, 48):
        spans = [windows.next_window(device, hour * 3600.0) for device in range(500)]
        free.append(sum(begin_s <= hour * 3600.0 for begin_s, _ in spans))
    assert min(free) > 20
    assert max(free) < 45


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("off_s", COORDINATOR_OFF_S)
def test_a_wrong_clock_of_the_coordinator_loses_nothing_and_is_told_until_it_is_right(world, off_s):
    coordinator = world.coordinator
    assert world.timeline.run(lambda: len(world.book.commits_s) >= 1, 6 * 3600.0)
    planned = PlannedEvent(world.timeline.now_s, YearEvent.COORDINATOR_CLOCK, -1, 3600.0, off_s)
    before_s = coordinator.now_s()
    world._happen(planned)
    assert coordinator.now_s() == pytest.approx(before_s, abs=1.0)
    assert "the newest time known to be right" in coordinator.distrust()
    blobs = {blob.sha256 for blob in coordinator.artifacts.listed()}
    coordinator.kill()
    world.timeline.run(lambda: "clock" in world.alerts.seen, world.timeline.now_s + 900.0)
    coordinator.prune()
    assert blobs <= {blob.sha256 for blob in coordinator.artifacts.listed()}
    assert world.alerts.seen["clock"] == 1
    world.timeline.run(lambda: False, planned.at_s + 3660.0)
    assert coordinator.distrust() == "", "within a minute of the correction"
    assert coordinator.now_s() == coordinator.machine_s
    commits = len(world.book.commits_s)
    assert world.timeline.run(lambda: len(world.book.commits_s) > commits, world.timeline.now_s + 6 * 3600.0)
    assert (world.book.lost, world.book.twice, world.visits) == ([], [], {})
    assert (world.alerts.without_alert, world.alerts.without_fault) == ([], [])


def test_a_disk_that_grows_is_seen():
    assert growth_percent([100] * 91) == 0.0
    assert growth_percent(list(range(1000, 1365))) > 1.0
    assert growth_percent([100] * 80 + [10**6] * 11) > 1.0
    assert growth_percent([100] * 90) is None


@pytest.fixture
def outcome():
    return YearOutcome(YearSettings(1), ReportBook(), disk=[1] * 10)


def test_every_key_of_the_result_is_on_the_page(outcome):
    assert [key for key in year_result(outcome) if f"`{key}`" not in PAGE] == []


def test_every_option_and_event_is_on_the_page():
    options = [option for each in year.params for option in each.opts]
    assert [name for name in (*options, *(f"`{event.value}`" for event in YearEvent)) if name not in PAGE] == []


def test_a_day_without_rounds_is_missed(outcome):
    assert year_result(outcome)["rounds_missed"] == 10 * DAY_S / 900


def test_some_of_what_went_wrong_is_named(outcome):
    outcome.visits |= {f"phone-{number} on day 1": "dead" for number in range(30)}
    outcome.alerts.without_fault.append("NightjarUnhealthy at 5")
    outcome.errors.first["boom"] = "boom: no"
    said = remarks(outcome)
    assert len(said) == 22
    assert said[-2:] == ["alert without fault: NightjarUnhealthy at 5", "logged: boom: no"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_agents_of_an_earlier_commit_take_part(tmp_path):
    tree = tmp_path / "former"
    made = subprocess.run([ROOT / "scripts/former_version.sh", FORMER, tree], capture_output=True, text=True)
    if made.returncode == 3:
        pytest.skip(f"{NO_HISTORY}: {made.stderr.strip()}")
    command = [sys.executable, "-m", "nightjar.simulation", "year", "--days", "2", "--devices", "50", "--json"]
    done = subprocess.run([*command, "--former", tree], capture_output=True, text=True, cwd=tmp_path)
    result = msgspec.json.decode(done.stdout)
    assert result["reports_accepted_of_former_agents"] > 0, done.stderr
    assert result["reports_accepted"] > result["reports_accepted_of_former_agents"]
    assert (result["reports_lost"], result["reports_counted_twice"]) == (0, 0)


def test_what_is_no_earlier_commit_is_refused(tmp_path):
    done = CliRunner().invoke(commands, ["year", "--days", "2", "--former", str(tmp_path)])
    assert "expected the tree of a commit from before the package nightjar" in str(done.exception)


@pytest.mark.verify
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("model", ["tiny", "gboard"])
def test_a_year_keeps_to_its_bars_and_prints_them_for_the_record(model, capsys):
    result, done = run("--model", model, *EVALUATED)
    with capsys.disabled():
        print(done.stdout)
    bars = ("visits_needed", "reports_lost", "reports_counted_twice", "faults_without_alert")
    assert {bar: result[bar] for bar in bars} == dict.fromkeys(bars, 0), done.stderr
    assert result["disk_bytes"] <= {"tiny": 2e9, "gboard": 6e9}[model]
    assert result["disk_growth_last_90_days_percent"] <= 1
    assert result["alerts_without_fault"] <= 12
    assert result["processor_seconds"] <= 2 * 3600
