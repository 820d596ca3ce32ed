"""Whatever leaves a device under a promise of differential privacy is in its ledger, by whichever way it leaves."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nightjar.edge_agent.core.lifecycle import REST_AFTER_REFUSAL_S
from nightjar.edge_agent.core.stored import Change
from nightjar.wire import frame
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import PrivacyTerms, Receipt, TrainingPlan, Verdict, Work
from tests.edge_agent.fakes import Phone
from tests.edge_agent.session.test_summing import ORDER, SummedRound
from tests.edge_agent.test_keyboard_reports import TEXTS, Counting, Foreseeing

TERMS = PrivacyTerms(epsilon=1e6, delta=1e-6, rounds=1000, separation=10, step=0)
NOISED = replace(ORDER, noise_variance=400)
PLAN = TrainingPlan(learning_rate=0.5, clip_norm=1.0)
ASKED = {
    "report": {},
    "masked": {},
    "evaluation": {"work": Work.EVALUATE, "plan": replace(PLAN, evaluation_share=0.5)},
    "evaluation beside": {"plan": replace(PLAN, evaluation_share=0.5)},
    "keyboard": {"plan": replace(PLAN, evaluation_share=0.5, keystrokes=True)},
}


class Reports:
    """A phone that is given one order after the other.

    Attributes:
        made: how many reports with a promise it made.
        figures: what left in them that has no noise.
    """

    def __init__(self, folder: Path) -> None:
        self.phone = Phone(folder, keyboard=True, program=Foreseeing, evaluate_keyboard=Counting())
        self.phone.database.add_once("enough to count", TEXTS)
        self.step, self.number, self.made = 0, 0, 0
        self.figures: list[object] = []

    def give(self, kind: str, *, back: bool = False) -> bool:
        """An order, of a coordinator that was set back if so; whether the phone made a report of it."""
        self.number += 1
        terms = replace(TERMS, step=max(0, self.step - 20) if back else self.step)
        self.step += 0 if back else 10
        self.phone.pass_time(REST_AFTER_REFUSAL_S + 1)
        self.phone.transport.sent.clear()
        if kind == "masked":
            self._mask(SummedRound(self.phone, self.number, NOISED, privacy=terms))
        else:
            self.phone.check_in()
            self.phone.be_assigned(self.number, privacy=terms, **ASKED[kind])
            self.phone.work()
            if self.phone.worker.jobs:
                self.phone.work()
        left = [frame.decode(data) for data in self.phone.transport.of("report")]
        self.figures += filter(None, [each for it in left for each in (it.evaluation, it.keyboard, it.loss)])
        return self.number in {each.round for each in left}

    def _mask(self, summed: SummedRound) -> None:
        summed.begin()
        if not self.phone.worker.jobs:
            return
        summed.collect()
        summed.pass_on()
        summed.pass_on()
        self.phone.work()

    def counted(self) -> int:
        return sum(entry.reports for entry in self.phone.database.ledger())

    def settle(self, *, killed: bool) -> None:
        """The receipt comes, perhaps after a kill and with the report sent again."""
        if killed:
            self.phone.kill()
        self.phone.hear(Receipt(round=self.number, attempt=1, verdict=Verdict.ACCEPTED))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(ASKED)), st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_every_report_under_a_promise_is_in_the_ledger_by_whichever_way_it_leaves(orders):
    with tempfile.TemporaryDirectory() as folder:
        reports, left, counted = Reports(Path(folder)), [], []
        for kind, back, killed in orders:
            reports.made += reports.give(kind, back=back)
            left.append((kind, reports.made, reports.made))
            before = reports.counted()
            reports.settle(killed=killed)
            counted.append((kind, before, reports.counted()))
        found = (counted, reports.figures)
        assert found == (left, []), "something has left the device, and the ledger does not have it"


@pytest.mark.parametrize("kind", ["report", "masked"])
def test_what_cannot_be_charged_does_not_leave(tmp_path, kind, monkeypatch):
    reports = Reports(tmp_path)
    commit = reports.phone.database.commit

    def full_disk(change: Change) -> None:
        if change.charged is not None:
            msg = "the disk is full"
            raise UnavailableError(msg)
        commit(change)

    monkeypatch.setattr(reports.phone.database, "commit", full_disk)
    assert not reports.give(kind)


@pytest.mark.parametrize("kind", ["evaluation", "evaluation beside", "keyboard"])
def test_what_is_counted_without_noise_does_not_leave_under_a_promise(tmp_path, kind):
    reports = Reports(tmp_path)
    left = reports.give(kind)
    assert (left, reports.figures) == (False, []), "these words were counted without noise"
