import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.core.events import Moment
from nightjar.edge_agent.core.outbox import (
    TABLE,
    Delivered,
    MissingCame,
    Nudged,
    Parcel,
    Pending,
    ReceiptCame,
    SendParts,
    SendQuery,
    Sent,
    TimePassed,
    step,
)
from nightjar.wire.errors import IllegalEvent
from nightjar.wire.messages import Missing, Receipt, Verdict

AT = Moment(100.0, 0.5)
WHOLE, CUT = Parcel(3, 1, 1), Parcel(3, 1, 4)


def receipt(verdict=Verdict.ACCEPTED, number=3, attempt=1):
    return ReceiptCame(AT, Receipt(round=number, attempt=attempt, verdict=verdict))


def missing(*chunks, number=3):
    return MissingCame(AT, Missing(round=number, attempt=1, chunks=chunks))


@pytest.mark.parametrize(
    ("state", "event", "following", "effects"),
    [
        (Pending(WHOLE), TimePassed(AT), Sent(WHOLE, 1, 103.75), (SendParts((0,)),)),
        (Pending(CUT), TimePassed(AT), Sent(CUT, 1, 103.75), (SendParts((0, 1, 2, 3)),)),
        (Pending(WHOLE), Nudged(AT), Pending(WHOLE), ()),
        (Pending(CUT), missing(1), Pending(CUT), ()),
        (Sent(WHOLE, 1, 100.5), TimePassed(AT), Sent(WHOLE, 1, 100.5), ()),
        (Sent(WHOLE, 1, 100.0), TimePassed(AT), Sent(WHOLE, 2, 107.5), (SendParts((0,)),)),
        (Sent(CUT, 1, 100.0), TimePassed(AT), Sent(CUT, 2, 107.5), (SendQuery(CUT),)),
        (Sent(WHOLE, 9, 300.0), Nudged(AT), Sent(WHOLE, 1, 101.0), ()),
        (Sent(CUT, 5, 300.0), missing(2, 0, 2), Sent(CUT, 1, 103.75), (SendParts((0, 2)),)),
        (Sent(CUT, 5, 300.0), missing(7), Sent(CUT, 1, 103.75), ()),
        (Sent(CUT, 5, 300.0), missing(1, number=2), Sent(CUT, 5, 300.0), ()),
        (Sent(WHOLE, 1, 103.0), receipt(number=2), Sent(WHOLE, 1, 103.0), ()),
        (Sent(WHOLE, 1, 103.0), receipt(attempt=2), Sent(WHOLE, 1, 103.0), ()),
    ],
)
def test_row(state, event, following, effects):
    assert step(state, event) == (following, effects)


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("state", [Pending(WHOLE), Sent(CUT, 4, 200.0)])
def test_every_receipt_settles_the_report(state, verdict):
    event = receipt(verdict)
    assert step(state, event) == (Delivered(state.parcel, event.receipt), ())


EVENTS = [TimePassed(AT), Nudged(AT), receipt(), missing(0)]


@pytest.mark.parametrize(
    ("state", "event"),
    list(itertools.product([Pending(CUT), Sent(CUT, 1, 103.0), Delivered(CUT, receipt().receipt)], EVENTS)),
)
def test_every_pair_is_a_row_or_illegal(state, event):
    if (type(state), type(event)) in TABLE:
        following, _ = step(state, event)
        assert type(following) in TABLE[type(state), type(event)].leads_to
    else:
        with pytest.raises(IllegalEvent, match="outbox, delivered: "):
            step(state, event)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["time", "nudge", "missing"])), min_size=1))
def test_without_a_receipt_it_is_never_settled_and_sent_again_within_five_minutes(happenings):
    state, now_s, last_sent_s = Pending(CUT), 0.0, 0.0
    for passed_s, what in happenings:
        now_s += passed_s
        at = Moment(now_s, 0.25)
        event = {"time": TimePassed(at), "nudge": Nudged(at), "missing": missing(1)}[what]
        state, effects = step(state, event)
        assert not isinstance(state, Delivered)
        if effects:
            last_sent_s = now_s
        elif what == "time":
            assert now_s - last_sent_s <= 300.0


def test_chunks_lost_on_the_way_are_the_only_ones_sent_again():
    """The coordinator's side in three lines: it has 0 and 3, answers a query, and gets the rest."""
    state, effects = step(Pending(CUT), TimePassed(AT))
    arrived = {0, 3}
    state, effects = step(state, TimePassed(Moment(110.0, 0.5)))
    assert effects == (SendQuery(CUT),)
    state, effects = step(state, missing(*({0, 1, 2, 3} - arrived)))
    assert effects == (SendParts((1, 2)),)
    state, effects = step(state, receipt())
    assert isinstance(state, Delivered)
