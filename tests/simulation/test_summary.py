import io
from pathlib import Path

import pytest
from rich.console import Console

from nightjar.models.ngram import NgramRecall
from nightjar.simulation.demo.configuration import DemoSettings
from nightjar.simulation.demo.keyboards import KeyboardRecall, SuggestionRecall
from nightjar.simulation.demo.pictures import draw, honest, recall_picture
from nightjar.simulation.demo.preparation import PreparedRun
from nightjar.simulation.demo.replay import LongRun, Reached
from nightjar.simulation.demo.summary import result_of, summary_table
from tests.simulation import states

SETTINGS = DemoSettings(phones=2, rounds=1, model="tiny", corpus="personas", seed=7, codec="topk-8", density=0.1)
PREPARED = PreparedRun(SETTINGS, Path("run"), "people", Path("c"), (), "u", "k", 1, NgramRecall(0.2, 0.3, 9), 60.0)

KEYBOARDS = KeyboardRecall(
    [0, 1],
    [SuggestionRecall(0.05, 0.1), SuggestionRecall(0.1, 0.2)],
    [SuggestionRecall(0.2, 0.3), SuggestionRecall(0.25, 0.35)],
    SuggestionRecall(0.15, 0.25),
    words=99,
    saved_first=0.31,
    saved_last=0.33,
    saved_without=0.3,
)
RUN = LongRun("a long run", curve=[Reached(0, 0.01, 0.02), Reached(750, 0.16, 0.27)])


def test_the_result_counts_what_was_not_counted_and_for_whom_recall_rose():
    by_phone = {"phone-01": (0.1, 0.2), "phone-02": (0.3, 0.3), "phone-03": (0.2, 0.1)}
    result = result_of(states.done(), PREPARED, by_phone, KEYBOARDS, seconds=12.34)
    assert result["reports_accepted"] == 1
    assert result["reports_rejected"] == 2 + 3
    assert (result["top1_initial"], result["top1_final"], result["top3_final"]) == (0.05, 0.125, 0.25)
    assert (result["phones_better"], result["phones_worse"]) == (1, 1)
    assert result["runtime"] == "r 1"
    assert result["seconds"] == 12.3
    assert result["emulated"] is True
    assert (result["version"], result["versions_refused"]) == (1, 0)


def test_refused_versions_are_counted_and_said():
    state = states.done()
    state["versions"][1]["stage"], state["task"]["version"] = "refused", 0
    result = result_of(state, PREPARED, {}, KEYBOARDS, seconds=1.0)
    assert (result["version"], result["versions_refused"]) == (0, 1)
    console = Console(file=io.StringIO(), width=120)
    console.print(summary_table(result))
    shown = "1 refused by the quality gate: top-1 recall fell; newest 0, on keyboards 0"
    assert shown in console.file.getvalue()


def test_the_table_can_be_drawn_with_and_without_reports():
    for state in (states.done(), states.EARLY):
        console = Console(file=io.StringIO(), width=100)
        console.print(summary_table(result_of(state, PREPARED, {}, KEYBOARDS, seconds=1.0)))
        assert "emulated" in console.file.getvalue()


def test_dropouts_count_attempts_and_the_reports_add_up():
    state, console = states.done(), Console(file=io.StringIO(), width=100)
    state["counters"]["dropouts"] = {"in-use": 2, "unplugged": 1}
    console.print(summary_table(result_of(state, PREPARED, {}, KEYBOARDS, seconds=1.0)))
    assert "3 attempts: 2 in use, 1 unplugged" in console.file.getvalue()
    assert "1 accepted, 2 late, 0 duplicate, 3 invalid" in console.file.getvalue()


def test_the_summary_has_the_keyboard_and_the_long_run_and_says_what_a_short_run_shows():
    result = result_of(states.done(), PREPARED, {}, KEYBOARDS, RUN, seconds=1.0)
    assert result["keyboard_recall"]["keyboard"][-1] == {"top1": 0.25, "top3": 0.35}
    assert result["long_run"] == {"name": "a long run", "curve": [[0, 0.01, 0.02], [750, 0.16, 0.27]]}
    console = Console(file=io.StringIO(), width=200)
    console.print(summary_table(result))
    for line in (
        "top-1 25.0 % with the fleet's model, 15.0 % without",
        "33.0 % on the phones' own words with the keyboard, 31.0 % with the first version, 30.0 % with none",
        "top-1 16.0 %, top-3 27.0 % after 750 rounds: a long run",
        "1 round of 2 phones shows that the system works",
    ):
        assert line in console.file.getvalue()


def test_a_run_without_a_committed_round_shows_nothing_of_the_model():
    assert "nothing" in honest(0, 8, "accuracy")


def test_the_summary_of_a_classification_speaks_of_its_figures_and_of_no_picture():
    state, console = states.done(), Console(file=io.StringIO(), width=300)
    state["task"]["figures"] = ("accuracy", "top-3 accuracy")
    console.print(summary_table(result_of(state, PREPARED, {}, None, seconds=1.0)))
    assert "accuracy moves from the start" in console.file.getvalue()
    assert "recall" not in console.file.getvalue()


def test_the_picture_has_a_line_for_each_version_with_the_best_farthest_right():
    console = Console(file=io.StringIO(), width=100)
    console.print(recall_picture(KEYBOARDS))
    last = next(line for line in console.file.getvalue().splitlines() if "25.0 %" in line)
    assert last.index("●") < last.index("│")
    assert last.index("│") < last.index("◆")
    assert ["10.0 %" in last, "15.0 %" in last] == [True, True]


@pytest.mark.parametrize("run", [None, RUN])
def test_the_picture_is_a_file_too(tmp_path, run):
    draw(tmp_path / "recall.svg", KEYBOARDS, "what it shows", run)
    assert b"<svg" in (tmp_path / "recall.svg").read_bytes()
