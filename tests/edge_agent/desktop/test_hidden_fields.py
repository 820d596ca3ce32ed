"""In real programs under a real IBus: a password that is made visible while it is typed is not kept."""

import pytest

from tests.edge_agent.desktop.desk import PROGRAMS, PYTHON, wait_for
from tests.edge_agent.desktop.desk import typing_desk as typing_desk  # a fixture
from tests.edge_agent.desktop.test_real_programs import FIELDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("ibus")]
HIDDEN, VISIBLE = "plumho", "rse near the zebra"


@pytest.mark.parametrize("toolkit", [field for field in FIELDS if field.values[0] in ("gtk4", "qt5", "qt6")])
def test_a_password_that_is_made_visible_is_not_kept(typing_desk, toolkit):
    desk = typing_desk
    desk.pause_ms = 100  # as in the tests of random keys
    desk.open(PYTHON, str(PROGRAMS / "hidden.py"), str(desk.text), toolkit)
    desk.make_ready()
    desk.press(*HIDDEN)
    wait_for(lambda: desk.shown() == str(len(HIDDEN)), "the hidden part")
    asked = {request["text"] for request in desk.suggester.asked("suggest")}
    desk.press(*("space" if key == " " else key for key in VISIBLE), "Return")
    wait_for(lambda: desk.shown() == str(len(HIDDEN + VISIBLE)), "the visible part")
    desk.press("F5")  # the engine has taken all before
    wait_for(lambda: [key for key, _ in desk.pressed() if key["name"] == "F5"], "the last key")
    assert (asked - {""}, desk.suggester.asked("learn")) == (set(), [])
