import copy
import io

import pytest
from rich.console import Console

from nightjar.simulation.demo.replay import LongRun, Reached
from nightjar.simulation.demo.watching import REFERENCE, Story, picture
from tests.simulation import states

RUN = LongRun("a long run", [Reached(0, 0.01, 0.02), Reached(300, 0.1, 0.2), Reached(600, 0.15, 0.25)])


def drawn(state, long_run=None):
    console = Console(file=io.StringIO(), width=120)
    console.print(picture(state, long_run))
    return console.file.getvalue()


def test_each_event_is_told_once_and_in_words():
    story = Story()
    assert story.news(states.EARLY) == []
    assert story.news(states.middle()) == [
        "version 0: top-1 recall 5.0 %",
        "round 1: selected phone-01, phone-02",
        "round 1: phone-01 dropped out (in use)",
    ]
    assert story.news(states.middle()) == []
    assert story.news(states.done()) == [
        "round 1 committed: 1 of 2 reports, dropouts 1 in use, top-1 recall 12.5 %, 2.0 s",
        "round 2 abandoned: waiting: 1 of 2 phones eligible",
    ]


@pytest.mark.parametrize("state", [states.EARLY, states.middle(), states.done()], ids=["early", "middle", "done"])
def test_the_picture_of_every_stage_can_be_drawn(state):
    before = copy.deepcopy(state)
    assert "rounds committed" in drawn(state)
    assert state == before


def test_the_picture_says_who_dropped_out_why_and_how_good_the_model_is():
    middle, done = drawn(states.middle()), drawn(states.done())
    assert "dropped out: in use" in middle
    assert "offline" in middle
    assert "12.5 %" in done
    assert "trigram" in done
    assert "2 abandoned" in done
    assert "400 B a report (dense 4,000 B)" in done
    assert REFERENCE in done


@pytest.mark.parametrize("columns", [80, 120])
def test_bars_stay_as_long_as_they_are_and_reasons_have_a_line_of_their_own(columns):
    state = states.done()
    state["rounds"][-1]["reason"] = "waiting: 0 of 2 phones eligible; 5 unplugged, 3 eligible only for a moment"
    state["versions"][1]["stage"] = "refused"
    console = Console(file=io.StringIO(), width=columns)
    console.print(picture(state))
    lines = console.file.getvalue().splitlines()
    bars = {line.count("█") for line in lines if "█" in line}
    assert len(bars) > 1, "bars of unequal recall are equal"
    assert not any("█" in line and "…" in line for line in lines)
    assert any(line.startswith("round 2: waiting: 0 of 2 phones eligible; 5 unplugged") for line in lines)
    assert any("versions refused because top-1 recall fell: 1; phones keep version 1" in line for line in lines)


def test_the_long_run_is_in_step_with_the_rounds():
    early, done = drawn(states.EARLY, RUN), drawn(states.done(), RUN)
    assert "recorded: a long run" in early
    assert ["0 of 600" in early, "300 of 600" in early, "300 of 600" in done, "600 of 600" in done] == [1, 0, 1, 0]
    story = Story(RUN)
    assert story.news(states.EARLY) == ["long run: a long run", "long run, round 0 of 600: top-1 recall 1.0 %"]
    assert story.news(states.done())[-1] == "long run, round 300 of 600: top-1 recall 10.0 %"
