"""What a device takes part in whatever its coordinator wants: the cohort, the density, the steps."""

import pytest
from msgspec.structs import replace

from nightjar.edge_agent.core.lifecycle import REST_AFTER_REFUSAL_S, STARTING
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.stored import Change
from nightjar.wire.frame import decode
from nightjar.wire.limits import Limits
from nightjar.wire.messages import CodecChoice, DropoutCause, PrivacyTerms, TrainingPlan
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank
from nightjar.wire.secure_sum.order import BINDING, SumOrder
from tests.edge_agent.fakes import Phone

DEFAULT = Limits()
PLAN = TrainingPlan(learning_rate=0.5, clip_norm=1.0)


def asked(phone, **changes):
    """The phone is asked, and does what it does about it."""
    phone.check_in()
    phone.be_assigned(**{"minimum": 10, "codec": CodecChoice(density=0.1), **changes})
    phone.work()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"minimum": 9}, "minimum: expected at least 10, got 9"),
        ({"minimum": 1}, "minimum: expected at least 10, got 1"),
        ({"codec": CodecChoice(name="dense-f32", density=0.01)}, "a density of at most 0.1, got 1 (dense-f32)"),
        ({"codec": CodecChoice(name="dense-f16", density=0.01)}, "a density of at most 0.1, got 1 (dense-f16)"),
        ({"codec": CodecChoice(density=1.0)}, "a density of at most 0.1, got 1 (topk-4)"),
        ({"codec": CodecChoice(name="sampled-4", density=0.2)}, "a density of at most 0.1, got 0.2 (sampled-4)"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_outside_the_limits_is_refused_before_anything_is_fetched(tmp_path, changes, why):
    phone = Phone(tmp_path, limits=DEFAULT)
    asked(phone, **changes)
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUTSIDE_LIMITS
    assert why in dropout.detail
    assert phone.trust.told == [dropout.detail]
    assert phone.artifacts.fetched == []
    assert phone.state == "resting"
    phone.pass_time(REST_AFTER_REFUSAL_S - 1)
    assert phone.state == "resting"
    phone.pass_time(2)
    assert phone.state == "checked-in"


def test_what_is_inside_the_limits_is_done(tmp_path):
    phone = Phone(tmp_path, limits=DEFAULT)
    asked(phone)
    phone.work()
    assert phone.state == "reporting"


def test_a_household_takes_part_with_two_and_not_alone(tmp_path):
    phone = Phone(tmp_path, limits=replace(DEFAULT, household=True))
    asked(phone, minimum=2)
    assert phone.state == "training"
    alone = Phone(tmp_path / "alone", limits=replace(DEFAULT, household=True))
    asked(alone, minimum=1)
    assert [dropout.cause for dropout in alone.transport.of("dropout")] == [DropoutCause.OUTSIDE_LIMITS]


def test_an_update_of_fewer_steps_than_the_limit_is_not_sent(tmp_path):
    phone = Phone(tmp_path, limits=replace(DEFAULT, steps=3))
    asked(phone, plan=replace(PLAN, max_steps=2))
    assert "plan.max_steps: expected at least 3, got 2" in phone.transport.of("dropout")[0].detail
    phone.pass_time(REST_AFTER_REFUSAL_S + 1)
    phone.be_assigned(number=2, minimum=10, plan=PLAN)  # the plan allows more, and there is not the text for it
    phone.work()
    phone.work()
    dropout = phone.transport.of("dropout")[-1]
    assert dropout.cause is DropoutCause.OUTSIDE_LIMITS
    assert "expected at least 3 training steps, had text for 1" in dropout.detail
    assert phone.transport.of("report") == []
    assert len(phone.trust.told) == 2
    phone.pass_time(REST_AFTER_REFUSAL_S + 1)
    phone.be_assigned(number=3, minimum=10, plan=replace(PLAN, local_epochs=3))
    phone.work()
    phone.work()
    (report,) = phone.transport.of("report")
    assert decode(report).steps == 3


def test_a_sum_of_more_values_than_the_limit_is_refused_whatever_the_codec_says(tmp_path):
    phone = Phone(tmp_path, limits=DEFAULT)
    rank, grid = Rank(rows=1000, right=4, left=4), Grid(step=0.5, most=10)
    order = SumOrder(
        number=1, threshold=3, cohort=12, rank=rank, grid=grid, clip_norm=1.0, most_examples=100, binding=BINDING
    )
    asked(phone, codec=CodecChoice(density=0.01), secure_sum=order)
    (dropout,) = phone.transport.of("dropout")
    assert (dropout.cause, "rank: expected a share" in dropout.detail) == (DropoutCause.OUTSIDE_LIMITS, True)


TERMS = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)


def test_a_device_with_a_privacy_limit_takes_part_only_in_what_has_differential_privacy(tmp_path):
    phone = Phone(tmp_path, limits=replace(DEFAULT, epsilon=10.0))
    asked(phone)
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUTSIDE_LIMITS
    assert "privacy: expected an epsilon of at most 10, got no differential privacy" in dropout.detail
    assert phone.artifacts.fetched == []


def test_a_report_is_charged_durably_and_the_device_stops_at_its_limit(tmp_path):
    phone = Phone(tmp_path, limits=replace(DEFAULT, epsilon=10.0))
    asked(phone, privacy=TERMS)
    assert phone.database.ledger() == []
    phone.work()
    assert phone.state == "reporting"
    (entry,) = phone.database.ledger()
    assert (entry.task, entry.terms, entry.reports) == ("demo", TERMS, 1)
    phone.database.wipe()
    assert phone.database.ledger() == [entry], "typed text goes, what was promised stays"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"privacy": replace(TERMS, step=13)}, "made a report in round 4 of the task, and may again from 14 on"),
        ({"task": "another", "privacy": TERMS}, "at most 10 in all, 8 is spent and the task has 8"),
    ],
)
def test_after_a_report_it_refuses_what_comes_too_soon_or_costs_too_much(tmp_path, changes, why):
    phone = Phone(tmp_path, limits=replace(DEFAULT, epsilon=10.0))
    phone.database.commit(Change(STARTING, charged=LedgerEntry("demo", TERMS, 1)))
    asked(phone, **changes)
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUTSIDE_LIMITS
    assert why in dropout.detail
