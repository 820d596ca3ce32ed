"""Error feedback loses nothing: what was accepted and what is kept are together all that was learned.

Over the real driver, codec and database, whatever happens to reports on their way.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.messages import CodecChoice, Receipt, TrainingPlan, Verdict
from tests.edge_agent.fakes import BOUND_TO, LAYOUT, Phone

FATES = (
    "accepted",
    "duplicate",
    "late",
    "lost, then accepted",
    "killed, then late",
    "late twice",
    "unplugged",
    "killed",
)
KEPT = {"late", "killed, then late", "late twice"}


class Life:
    """A phone through many rounds, and a coordinator that keeps the sum of what it accepted."""

    def __init__(self, folder: Path, codec: CodecChoice) -> None:
        self.phone = Phone(folder)
        self.codec = codec
        self.phone.driver.begin()
        self.learned = np.zeros(LAYOUT.size)
        self.accepted = np.zeros(LAYOUT.size)

    def live(self, number: int, fate: str, learning_rate: float) -> None:
        phone = self.phone
        while phone.state != "checked-in":
            phone.pass_time(121)
        phone.be_assigned(number, codec=self.codec, plan=TrainingPlan(learning_rate=learning_rate, clip_norm=1.0))
        phone.work()
        if fate == "unplugged":
            phone.conditions.lost = {Condition.CHARGING}
            phone.pass_time(1)
            phone.conditions.lost = set()
            phone.worker.jobs.clear()
            return
        if fate == "killed":
            phone.kill()
            return
        phone.work()
        self.learned += phone.programs[-1].delta()
        report = phone.transport.of("report")[-1]
        if fate.startswith("lost"):
            phone.pass_time(400)
            assert phone.transport.of("report")[-1] == report, "the same bytes again"
        if fate.startswith("killed"):
            phone.kill()
            phone.pass_time(1)
            assert phone.transport.of("report")[-1] == report
        if fate in KEPT:
            verdict = Verdict.LATE
        else:
            verdict = Verdict.DUPLICATE if fate == "duplicate" else Verdict.ACCEPTED
            self.accepted += codec_for(self.codec).decode(frame.decode(report).payload, LAYOUT).dense()
        for _ in range(2 if fate == "late twice" else 1):
            phone.hear(Receipt(round=number, attempt=1, verdict=verdict))

    @property
    def kept(self) -> np.ndarray:
        kept = self.phone.database.residual(BOUND_TO)
        return np.zeros(LAYOUT.size) if kept is None else kept

    @property
    def mass_lost(self) -> float:
        """Share of all that was learned that is neither accepted nor kept."""
        missing = np.abs(self.learned - self.accepted - self.kept).sum()
        return missing / max(np.abs(self.learned).sum(), 1e-9)


@pytest.mark.parametrize("codec", ["topk-8", "topk-4", "dense-f16"])
@given(
    st.lists(st.tuples(st.sampled_from(FATES), st.floats(0.01, 2)), min_size=1, max_size=6),
    st.sampled_from([0.02, 0.3]),
)
@settings(deadline=None, max_examples=12)
def test_with_error_feedback_no_mass_is_lost(codec, fates, density):
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), CodecChoice(name=codec, density=density, error_feedback=True))
        for number, (fate, rate) in enumerate(fates, 1):
            life.live(number, fate, rate)
            assert life.mass_lost < 1e-5


@pytest.mark.parametrize("codec", ["topk-8", "topk-4", "dense-f16"])
def test_through_every_fate_in_turn_the_mass_lost_is_zero_but_for_rounding(tmp_path, codec):
    life = Life(tmp_path, CodecChoice(name=codec, density=0.05, error_feedback=True))
    for number, fate in enumerate([*FATES, *reversed(FATES)], 1):
        life.live(number, fate, 0.5)
    print(f"{codec}: {life.mass_lost:.1e} of what was learned is neither accepted nor kept, after {number} rounds")
    assert np.abs(life.accepted).sum() > 0
    assert life.mass_lost < 1e-6


def test_without_error_feedback_what_is_late_is_gone(tmp_path):
    life = Life(tmp_path, CodecChoice(name="dense-f32"))
    life.live(1, "accepted", 1.0)
    assert life.mass_lost < 1e-6
    life.live(2, "late", 1.0)
    assert life.mass_lost == pytest.approx(0.5)
