import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.user_preferences import UserPreferences, minute_of_day
from nightjar.wire.errors import UnavailableError


def test_paused_learning_is_a_no():
    readings = UserPreferences(lambda: True, (), lambda: 0)()
    assert (readings[Condition.WANTED].value, readings[Condition.WANTED].reason) == (Answer.NO, "learning is paused")
    assert UserPreferences(lambda: False, (), lambda: 0)()[Condition.WANTED].value is Answer.YES


def test_who_cannot_be_asked_did_not_agree():
    def broken():
        raise UnavailableError("the agent's database could not be read")

    assert UserPreferences(broken, (), lambda: 0)()[Condition.WANTED].value is Answer.UNKNOWN


@pytest.mark.parametrize(("minute", "answer"), [(600, Answer.NO), (100, Answer.YES), (None, Answer.UNKNOWN)])
def test_quiet_hours(minute, answer):
    assert (
        UserPreferences(lambda: False, ("09:00-11:00",), lambda: minute)()[Condition.OUTSIDE_QUIET_HOURS].value
        is answer
    )


def test_a_clock_that_was_never_set_knows_no_hour():
    assert minute_of_day(3600.0) is None
    assert 0 <= minute_of_day(1.8e9) < 24 * 60
