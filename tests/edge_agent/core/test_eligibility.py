import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.core.eligibility import (
    DEFAULT_POLICY,
    Answer,
    Condition,
    ConditionReading,
    Demand,
    EligibilityRun,
    EligibilityVerdict,
    apply_hysteresis,
    battery_reading,
    heat_reading,
    judge,
    quiet_reading,
    quiet_span,
)
from nightjar.wire.messages import DropoutCause

ALL_HOLD = {c: ConditionReading(Answer.YES, "test", "ok") for c in Condition}


@pytest.mark.parametrize(
    ("condition", "cause", "unknown_is_eligible"),
    [
        (Condition.WANTED, DropoutCause.PAUSED, False),
        (Condition.CHARGING, DropoutCause.UNPLUGGED, False),
        (Condition.IDLE, DropoutCause.IN_USE, True),
        (Condition.UNMETERED, DropoutCause.METERED, False),
        (Condition.BATTERY_HIGH, DropoutCause.LOW_BATTERY, True),
        (Condition.COOL, DropoutCause.TOO_HOT, True),
        (Condition.OUTSIDE_QUIET_HOURS, DropoutCause.QUIET_HOURS, True),
        (Condition.STEADY_POWER, DropoutCause.UNDER_VOLTAGE, True),
        (Condition.DISK_FREE, DropoutCause.LOW_RESOURCES, True),
        (Condition.MEMORY_FREE, DropoutCause.LOW_RESOURCES, True),
        (Condition.HAS_EXAMPLES, DropoutCause.NO_EXAMPLES, False),
    ],
)
def test_a_lost_condition_blocks_and_an_unknown_one_only_where_it_must(condition, cause, unknown_is_eligible):
    lost = judge(ALL_HOLD | {condition: ConditionReading(Answer.NO, "test", "because")})
    assert lost == EligibilityVerdict(False, "because", cause)
    unknown = judge(ALL_HOLD | {condition: ConditionReading(Answer.UNKNOWN, "test", "no idea")})
    assert unknown.eligible is unknown_is_eligible
    missing = judge({c: r for c, r in ALL_HOLD.items() if c is not condition})
    assert missing.eligible is unknown_is_eligible


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(Condition), st.builds(ConditionReading, st.sampled_from(Answer), st.text(), st.text())
    )
)
def test_every_verdict_has_a_cause_exactly_if_it_blocks(readings):
    verdict = judge(readings)
    assert (verdict.cause is None) is verdict.eligible


def test_a_blocking_verdict_names_the_unknown_condition():
    assert judge({}).reason == "wanted: unknown (no source)"


@pytest.mark.parametrize("condition", Condition)
@pytest.mark.parametrize(
    ("demand", "eligible"),
    [
        (Demand.REQUIRED, {Answer.YES}),
        (Demand.UNLESS_UNKNOWN, {Answer.YES, Answer.UNKNOWN}),
        (Demand.IGNORED, set(Answer)),
    ],
)
def test_each_demand_can_be_made_of_each_condition(condition, demand, eligible):
    policy = {**DEFAULT_POLICY, condition: demand}
    for answer in Answer:
        readings = ALL_HOLD | {condition: ConditionReading(answer, "test", "because")}
        assert judge(readings, policy).eligible is (answer in eligible)


def test_a_condition_that_a_policy_forgets_is_required():
    unknown = ALL_HOLD | {Condition.COOL: ConditionReading(Answer.UNKNOWN, "test", "")}
    assert judge(unknown).eligible
    assert not judge(unknown, {}).eligible


@pytest.mark.parametrize(
    ("minute", "answer"), [(0, Answer.NO), (419, Answer.NO), (420, Answer.YES), (1349, Answer.YES), (1350, Answer.NO)]
)
def test_quiet_hours_over_midnight(minute, answer):
    reading = quiet_reading(["22:30-07:00"], minute, "test")
    assert reading.value is answer
    assert ("22:30-07:00" in reading.reason) is (answer is Answer.NO)


@pytest.mark.parametrize(
    "text", ["", "9-17", "09:00", "09:00-", "24:00-01:00", "09:60-10:00", "10:00-10:00", "a:bc-1:00"]
)
def test_what_is_no_span_of_the_day(text):
    with pytest.raises(ValueError, match="span of the day"):
        quiet_span(text)


def test_an_old_reading_is_unknown():
    old = ALL_HOLD | {Condition.CHARGING: ConditionReading(Answer.YES, "test", "charging", age_s=61.0)}
    assert judge(old).cause is DropoutCause.UNPLUGGED
    assert judge(ALL_HOLD | {Condition.CHARGING: ConditionReading(Answer.YES, "test", "charging", age_s=60.0)}).eligible


YES, NO = EligibilityVerdict(True, "", None), EligibilityVerdict(False, "unplugged", DropoutCause.UNPLUGGED)


@pytest.mark.parametrize(
    ("verdicts", "standings"),
    [
        ([(0, YES)], [EligibilityRun.SETTLING]),
        ([(0, YES), (119.9, YES)], [EligibilityRun.SETTLING, EligibilityRun.SETTLING]),
        ([(0, YES), (120, YES)], [EligibilityRun.SETTLING, EligibilityRun.FIT]),
        ([(0, YES), (119, NO), (120, YES)], [EligibilityRun.SETTLING, EligibilityRun.UNFIT, EligibilityRun.SETTLING]),
        ([(0, NO), (500, NO)], [EligibilityRun.UNFIT, EligibilityRun.UNFIT]),
        ([(0, YES), (200, YES), (201, NO), (202, YES), (322, YES)], ["settling", "fit", "unfit", "settling", "fit"]),
    ],
)
def test_eligible_for_the_whole_hysteresis_time_without_a_break(verdicts, standings):
    since, found = None, []
    for now_s, verdict in verdicts:
        since, run = apply_hysteresis(since, verdict, now_s, 120.0)
        found.append(run)
    assert found == [EligibilityRun(s) if isinstance(s, str) else s for s in standings]


def test_without_hysteresis_an_eligible_device_is_fit_at_once():
    assert apply_hysteresis(None, YES, 5.0, 0.0)[1] is EligibilityRun.FIT


@pytest.mark.parametrize(("level", "answer"), [(None, Answer.UNKNOWN), (0.29, Answer.NO), (0.3, Answer.YES)])
def test_battery(level, answer):
    assert battery_reading(level, 0.3, "test").value is answer


@pytest.mark.parametrize(("temperature", "answer"), [(None, Answer.UNKNOWN), (45.1, Answer.NO), (45.0, Answer.YES)])
def test_heat(temperature, answer):
    assert heat_reading(temperature, 45.0, "test").value is answer
