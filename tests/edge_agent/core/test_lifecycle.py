import itertools
import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.core import lifecycle
from nightjar.edge_agent.core.eligibility import EligibilityRun
from nightjar.edge_agent.core.events import (
    Announced,
    Assigned,
    ConditionsJudged,
    Connected,
    Event,
    Moment,
    Prepare,
    Prepared,
    Rejected,
    ReportSettled,
    Restarted,
    SendCheckIn,
    SendDropout,
    Stopping,
    StopWork,
    Train,
    Trained,
    WorkFailed,
)
from nightjar.edge_agent.core.lifecycle import (
    FINISH_S,
    STARTING,
    TABLE,
    CheckedIn,
    Finishing,
    Ineligible,
    Preparing,
    Reporting,
    Resting,
    Settling,
    Training,
    name,
    reason,
    step,
)
from nightjar.wire.errors import IllegalEvent
from nightjar.wire.messages import (
    Assignment,
    CodecChoice,
    DropoutCause,
    Receipt,
    Rejection,
    RejectionReason,
    TrainingPlan,
    Verdict,
)

AT = Moment(100.0, 0.5)
CAUSE = DropoutCause.UNPLUGGED


def make_assignment(number=3, attempt=1, report_deadline_s=60.0):
    return Assignment(
        task="t",
        round=number,
        attempt=attempt,
        version=2,
        manifest="0" * 64,
        codec=CodecChoice(),
        plan=TrainingPlan(learning_rate=1.0, clip_norm=1.0),
        report_deadline_s=report_deadline_s,
    )


MINE, OTHER = make_assignment(), make_assignment(4)
STATES = [
    Ineligible("unplugged", CAUSE),
    Settling("soon", CAUSE),
    CheckedIn(1, 115.0),
    Preparing(MINE, 160.0),
    Training(MINE, 160.0),
    Finishing(MINE, 160.0, CAUSE, "unplugged"),
    Reporting(3, 1),
    Resting(130.0, "rejected"),
]


def judged(run, at=AT):
    return ConditionsJudged(at, run, run.value, CAUSE if run is EligibilityRun.UNFIT else None)


def receipt(verdict=Verdict.ACCEPTED, retry_after_s=7.0):
    return Receipt(round=3, attempt=1, verdict=verdict, retry_after_s=retry_after_s)


def rejection(retry_after_s=9.0):
    return Rejection(reason=RejectionReason.NOT_SELECTED, retry_after_s=retry_after_s)


EVENTS = [
    *(judged(s) for s in EligibilityRun),
    Connected(AT),
    Announced(AT),
    Assigned(AT, MINE, 585.0),
    Assigned(AT, OTHER, 585.0),
    Rejected(AT, rejection()),
    Prepared(AT),
    Trained(AT),
    WorkFailed(AT, DropoutCause.FETCH_FAILED, "down"),
    ReportSettled(AT, receipt()),
    Restarted(AT),
    Stopping(AT),
]

ACCEPTED = "report of round 3 accepted"
GAVE_UP = (StopWork(), SendDropout(3, 1, CAUSE, "unfit"))
ROWS = [
    # follow the conditions
    (STARTING, judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), ()),
    (STARTING, judged(EligibilityRun.SETTLING), Settling("settling", DropoutCause.RESTARTED), ()),
    (STARTING, judged(EligibilityRun.FIT), CheckedIn(1, 115.0), (SendCheckIn(),)),
    (Settling("soon", CAUSE), judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), ()),
    (Settling("soon", CAUSE), judged(EligibilityRun.SETTLING), Settling("settling", CAUSE), ()),
    (Settling("soon", CAUSE), judged(EligibilityRun.FIT), CheckedIn(1, 115.0), (SendCheckIn(),)),
    # checked in
    (CheckedIn(1, 101.0), judged(EligibilityRun.FIT), CheckedIn(1, 101.0), ()),
    (CheckedIn(1, 100.0), judged(EligibilityRun.FIT), CheckedIn(2, 130.0), (SendCheckIn(),)),
    (CheckedIn(1, 101.0), judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), ()),
    (CheckedIn(5, 400.0), Connected(AT), CheckedIn(1, 115.0), (SendCheckIn(),)),
    (CheckedIn(5, 400.0), Announced(AT), CheckedIn(1, 101.0), ()),
    (CheckedIn(1, 100.5), Announced(AT), CheckedIn(1, 100.5), ()),
    (CheckedIn(5, 400.0), Announced(AT, within_s=0.1), CheckedIn(1, 100.05), ()),
    (Resting(400.0, "accepted", 3, 1), Announced(AT, within_s=0.1), Resting(100.05, "accepted", 3, 1), ()),
    (Resting(100.01, "accepted", 3, 1), Announced(AT, within_s=0.1), Resting(100.01, "accepted", 3, 1), ()),
    (Resting(400.0, "accepted", 3, 1), Announced(AT), Resting(400.0, "accepted", 3, 1), ()),
    (Resting(400.0, "blocked"), Announced(AT, within_s=0.1), Resting(400.0, "blocked"), ()),
    (Resting(400.0, "blocked"), Announced(AT, recalled=True), Resting(400.0, "blocked"), ()),
    (
        Resting(400.0, "the task is paused", unwanted=True),
        Announced(AT, recalled=True),
        Resting(101.0, "the task is paused", unwanted=True),
        (),
    ),
    (Resting(400.0, "no", unwanted=True), Announced(AT), Resting(400.0, "no", unwanted=True), ()),
    (CheckedIn(1, 115.0), Assigned(AT, MINE, 585.0), Preparing(MINE, 160.0), (Prepare(MINE),)),
    (CheckedIn(1, 115.0), Assigned(AT, MINE, 30.0), Preparing(MINE, 130.0), (Prepare(MINE),)),
    (CheckedIn(1, 115.0), Rejected(AT, rejection()), Resting(109.0, "not selected; again in 9 s"), ()),
    (CheckedIn(1, 115.0), Rejected(AT, rejection(0)), Resting(101.0, "not selected; again in 1 s"), ()),
    # work
    (Preparing(MINE, 160.0), Prepared(AT), Training(MINE, 160.0), (Train(MINE),)),
    (Preparing(MINE, 160.0), judged(EligibilityRun.FIT), Preparing(MINE, 160.0), ()),
    (Preparing(MINE, 160.0), judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), GAVE_UP),
    (Training(MINE, 160.0), judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), GAVE_UP),
    (Training(MINE, 160.0), judged(EligibilityRun.SETTLING), Training(MINE, 160.0), ()),
    (Training(MINE, 160.0), Trained(AT), Reporting(3, 1), ()),
    (
        Training(MINE, 100.0),
        judged(EligibilityRun.FIT),
        Resting(115.0, "out of time"),
        (StopWork(), SendDropout(3, 1, DropoutCause.OUT_OF_TIME, "the deadline passed")),
    ),
    (
        Preparing(MINE, 160.0),
        WorkFailed(AT, DropoutCause.FETCH_FAILED, "down"),
        Resting(115.0, "down"),
        (SendDropout(3, 1, DropoutCause.FETCH_FAILED, "down"),),
    ),
    (
        Training(MINE, 160.0),
        WorkFailed(AT, DropoutCause.TRAINING_FAILED, "nan"),
        Resting(115.0, "nan"),
        (SendDropout(3, 1, DropoutCause.TRAINING_FAILED, "nan"),),
    ),
    # the report
    (Reporting(3, 1), judged(EligibilityRun.UNFIT), Reporting(3, 1), ()),
    (Reporting(3, 1), ReportSettled(AT, receipt()), Resting(107.0, ACCEPTED, 3, 1), ()),
    (
        Reporting(3, 1),
        ReportSettled(AT, receipt(retry_after_s=0)),
        Resting(101.0, "report of round 3 accepted", 3, 1),
        (),
    ),
    # rest
    (Resting(100.5, "x"), judged(EligibilityRun.FIT), Resting(100.5, "x"), ()),
    (Resting(100.0, "x"), judged(EligibilityRun.FIT), CheckedIn(1, 115.0), (SendCheckIn(),)),
    (Resting(100.0, "x"), judged(EligibilityRun.UNFIT), Ineligible("unfit", CAUSE), ()),
    (Resting(100.0, "x"), judged(EligibilityRun.SETTLING), Settling("settling", DropoutCause.IN_USE), ()),
    # an assignment that is not ours to take
    (Preparing(MINE, 160.0), Assigned(AT, MINE, 585.0), Preparing(MINE, 160.0), ()),
    (Training(MINE, 160.0), Assigned(AT, MINE, 585.0), Training(MINE, 160.0), ()),
    (Reporting(3, 1), Assigned(AT, MINE, 585.0), Reporting(3, 1), ()),
    (Resting(130.0, "x", 3, 1), Assigned(AT, MINE, 585.0), Resting(130.0, "x", 3, 1), ()),
    (
        Ineligible("unplugged", CAUSE),
        Assigned(AT, MINE, 585.0),
        Ineligible("unplugged", CAUSE),
        (SendDropout(3, 1, CAUSE, "ineligible: unplugged"),),
    ),
    (
        Settling("soon", CAUSE),
        Assigned(AT, MINE, 585.0),
        Settling("soon", CAUSE),
        (SendDropout(3, 1, CAUSE, "settling: soon"),),
    ),
    (
        Training(MINE, 160.0),
        Assigned(AT, OTHER, 585.0),
        Training(MINE, 160.0),
        (SendDropout(4, 1, DropoutCause.IN_USE, "training: training for round 3"),),
    ),
    (
        Resting(130.0, "x", 3, 1),
        Assigned(AT, OTHER, 585.0),
        Resting(130.0, "x", 3, 1),
        (SendDropout(4, 1, DropoutCause.IN_USE, "resting: x"),),
    ),
    # the process ends and begins
    *(
        (s, Restarted(AT), STARTING, ())
        for s in STATES
        if not isinstance(s, Preparing | Training | Finishing | Reporting)
    ),
    (Reporting(3, 1), Restarted(AT), Reporting(3, 1), ()),
    *(
        (s, Restarted(AT), STARTING, (SendDropout(3, 1, DropoutCause.RESTARTED, "the agent was restarted"),))
        for s in (Preparing(MINE, 160.0), Training(MINE, 160.0), Finishing(MINE, 160.0, CAUSE, "x"))
    ),
    *(
        (s, Restarted(AT, 2), STARTING, (SendDropout(3, 1, DropoutCause.RESTARTED, "the agent was restarted"),))
        for s in (Preparing(MINE, 160.0), Training(MINE, 160.0), Finishing(MINE, 160.0, CAUSE, "x"))
    ),
    *(
        (
            s,
            Restarted(AT, 3),
            Resting(100.0 + 6 * 3600, "the last 3 sessions ended the agent"),
            (SendDropout(3, 1, DropoutCause.TRAINING_FAILED, "the last 3 sessions ended the agent"),),
        )
        for s in (Preparing(MINE, 160.0), Training(MINE, 160.0), Finishing(MINE, 160.0, CAUSE, "x"))
    ),
    *(
        (
            s,
            Stopping(AT),
            Ineligible("stopped", DropoutCause.RESTARTED),
            (StopWork(), SendDropout(3, 1, DropoutCause.RESTARTED, "the agent was stopped")),
        )
        for s in (Preparing(MINE, 160.0), Training(MINE, 160.0), Finishing(MINE, 160.0, CAUSE, "x"))
    ),
    (CheckedIn(1, 115.0), Stopping(AT), Ineligible("stopped", DropoutCause.RESTARTED), ()),
    (Reporting(3, 1), Stopping(AT), Reporting(3, 1), ()),
]


@pytest.mark.parametrize(("state", "event", "following", "effects"), ROWS)
def test_row(state, event, following, effects):
    assert step(state, event) == (following, effects)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_every_pair_is_a_row_or_illegal_and_leaves_the_state_equal(state, event):
    before = msgspec.json.encode(state)
    if (type(state), type(event)) in TABLE:
        following, _ = step(state, event)
        assert type(following) in TABLE[type(state), type(event)].leads_to
    else:
        with pytest.raises(IllegalEvent, match=f"lifecycle, {name(state)}: {type(event).__name__} cannot happen here"):
            step(state, event)
    assert msgspec.json.encode(state) == before


@pytest.mark.parametrize(("state", "message"), list(itertools.product(STATES, [EVENTS[5], EVENTS[7]])))
def test_messages_have_a_row_in_every_state(state, message):
    step(state, message)


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_name_and_a_reason_and_survives_storage(state):
    assert name(state)
    assert reason(state)
    assert msgspec.json.decode(msgspec.json.encode(state), type=lifecycle.State) == state


def test_the_table_has_no_row_for_unknown_types():
    states, happenings = typing.get_args(lifecycle.State), typing.get_args(Event)
    assert all(state in states and event in happenings for state, event in TABLE)


def events_of_life():
    moments = st.builds(Moment, st.just(0.0), st.floats(0, 1, exclude_max=True))
    assignments = st.builds(make_assignment, st.integers(1, 3), st.integers(1, 2))
    return st.one_of(
        st.builds(judged, st.sampled_from(EligibilityRun)),
        st.builds(Connected, moments),
        st.builds(Announced, moments),
        st.builds(Assigned, moments, assignments, st.just(585.0)),
        st.builds(Rejected, moments, st.builds(rejection, st.floats(0, 100))),
        st.builds(Prepared, moments),
        st.builds(Trained, moments),
        st.builds(WorkFailed, moments, st.just(DropoutCause.FETCH_FAILED), st.just("down")),
        st.builds(ReportSettled, moments, st.builds(receipt)),
        st.builds(Restarted, moments),
        st.builds(Stopping, moments),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(events_of_life(), st.floats(0, 200)), max_size=60))
def test_every_assignment_taken_up_ends_in_a_report_or_a_dropout(happenings):
    """And nothing is trained that was not assigned, and every answer to an assignment is given once."""
    state, now_s = STARTING, 0.0
    open_rounds, at_work = set(), None
    for event, passed_s in happenings:
        now_s += passed_s
        timed = type(event)(Moment(now_s, event.at.jitter), *[getattr(event, f) for f in event.__slots__[1:]])
        try:
            state, effects = step(state, timed)
        except IllegalEvent:
            continue
        for effect in effects:
            match effect:
                case Prepare(given_to_us):
                    at_work = (given_to_us.round, given_to_us.attempt)
                    open_rounds.add(at_work)
                case Train(given_to_us):
                    assert (given_to_us.round, given_to_us.attempt) == at_work
                case SendDropout(number, attempt, _, _):
                    open_rounds.discard((number, attempt))
                case StopWork():
                    assert at_work is not None
        match state:
            case Preparing(mine, deadline_s) | Training(mine, deadline_s):
                assert open_rounds == {(mine.round, mine.attempt)}
                assert deadline_s <= now_s + 60.0
            case Reporting(number, attempt):
                open_rounds.discard((number, attempt))
            case _:
                assert open_rounds == set()


def keeping(report_deadline_s=600.0, keep_share=0.5):
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, keep_share=keep_share)
    return msgspec.structs.replace(make_assignment(report_deadline_s=report_deadline_s), plan=plan)


def lost(cause=CAUSE, now_s=100.0):
    return ConditionsJudged(Moment(now_s, 0.5), EligibilityRun.UNFIT, "unplugged", cause)


def test_conditions_lost_while_training_keep_what_is_enough_and_reachable():
    mine = keeping()
    state, effects = step(Training(mine, 700.0), lost())
    assert (state, effects) == (Finishing(mine, 100.0 + FINISH_S, CAUSE, "unplugged"), (StopWork(),))
    assert step(state, lost(now_s=101.0)) == (state, ())
    assert step(state, judged(EligibilityRun.FIT, Moment(102.0, 0.5))) == (state, ())
    assert step(state, Trained(AT)) == (Reporting(3, 1), ())


def test_what_was_not_enough_is_a_dropout_for_the_cause_that_ended_it():
    finishing = Finishing(keeping(), 160.0, CAUSE, "unplugged")
    given_up = (Ineligible("unplugged", CAUSE), (StopWork(), SendDropout(3, 1, CAUSE, "unplugged")))
    assert step(finishing, WorkFailed(AT, DropoutCause.IN_USE, "after 2 of 9 steps")) == given_up
    assert step(finishing, lost(now_s=160.0)) == given_up


@pytest.mark.parametrize(
    ("mine", "event"),
    [
        (keeping(keep_share=1.0), lost()),
        (keeping(), lost(DropoutCause.METERED)),
        (keeping(report_deadline_s=FINISH_S), lost()),
    ],
    ids=["not asked for", "metered", "deadline too near"],
)
def test_otherwise_a_training_that_is_stopped_is_a_dropout_at_once(mine, event):
    state, effects = step(Training(mine, 100.0 + mine.report_deadline_s), event)
    assert state == Ineligible("unplugged", event.cause)
    assert effects == (StopWork(), SendDropout(3, 1, event.cause, "unplugged"))
