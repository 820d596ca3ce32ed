"""A session that is asked for keystrokes: whether the report says what the keyboard saves, and who decides that."""

import pytest
import structlog

from nightjar.edge_agent.core.results import Evaluation
from nightjar.edge_agent.ports import SessionDependencies
from nightjar.edge_agent.session.session import in_this_process, run_session
from nightjar.models.source import Source
from nightjar.wire import frame
from nightjar.wire.errors import UnavailableError
from nightjar.wire.frame import KIND_EVALUATED_REPORT, KIND_KEYBOARD_REPORT, KeyboardEvaluation
from nightjar.wire.messages import Announcement, PrivacyTerms, TrainingPlan, Work
from tests.edge_agent.fakes import FakeProgram, Phone, assignment, to_report, write_model

FOUND = KeyboardEvaluation(1000, 420, 3, 430)
SAYING = {"learning_rate": 0.5, "clip_norm": 1.0, "evaluation_share": 0.3}
ASKED = TrainingPlan(**SAYING, keystrokes=True)
OF_BEFORE = TrainingPlan(**SAYING)
"""What a coordinator sends that does not know keyboard evaluations."""
TEXTS = tuple(f"the cat sat on a mat {one}{other}" for one in "abcdef" for other in "ghijklmnop")


class Examples:
    def source(self):
        return Source(TEXTS)


class Foreseeing(FakeProgram):
    """Predicts half of the words."""

    def evaluate(self, x, y):
        counted = int((y > 3).sum())
        return Evaluation(2.0 * counted, counted, counted, counted // 2, counted // 2)


class Counting:
    """Replaces the count of keystrokes, and notes with which versions it was asked to count."""

    def __init__(self, found=FOUND):
        self.found, self.compared = found, []

    def __call__(self, task, should_stop, now_s):
        self.compared.append((task.model.manifest.version, task.announced.manifest.version))
        if isinstance(self.found, Exception):
            raise self.found
        return None if should_stop() else self.found


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path, 4)


@pytest.fixture
def announced(tmp_path):
    return write_model(tmp_path, 3)


def report(model, announced, counting, plan=ASKED, should_stop=lambda: False, **changes):
    train = in_this_process(lambda _model: Foreseeing(), lambda: 0.0, counting)
    desk = SessionDependencies(Examples(), train, announced=lambda: announced)
    made = run_session(desk, assignment(model, plan=plan, **changes), model, FakeRandom(), should_stop)
    return frame.decode(made.report.frame), made


class FakeRandom:
    def integers(self, _below):
        return 7


@pytest.mark.parametrize("work", [Work.TRAIN, Work.EVALUATE])
def test_a_device_that_is_asked_says_what_its_keyboard_saves_with_both_versions(model, announced, work):
    counting = Counting()
    sent, made = report(model, announced, counting, work=work)
    assert sent.keyboard == made.keyboard == FOUND
    assert sent.evaluation.counted > 0
    assert made.report.frame[3] == KIND_KEYBOARD_REPORT
    assert counting.compared == [(4, 3)]


@pytest.mark.parametrize("work", [Work.TRAIN, Work.EVALUATE])
def test_a_coordinator_of_before_gets_the_report_that_it_knows(model, announced, work):
    counting = Counting()
    sent, _ = report(model, announced, counting, OF_BEFORE, work=work)
    assert sent.keyboard is None
    assert counting.compared == []
    _, made = report(model, announced, counting, OF_BEFORE, work=work)
    assert made.report.frame[3] == KIND_EVALUATED_REPORT


def test_a_device_without_a_keyboard_says_nothing_of_one(model):
    counting = Counting()
    sent, _ = report(model, None, counting)
    assert (sent.keyboard, counting.compared) == (None, [])
    assert sent.evaluation is not None


def test_without_held_out_messages_nothing_is_counted(model, announced):
    counting = Counting()
    plan = TrainingPlan(learning_rate=0.5, clip_norm=1.0, keystrokes=True)
    sent, _ = report(model, announced, counting, plan)
    assert (sent.evaluation, sent.keyboard, counting.compared) == (None, None, [])


def test_nothing_is_said_beside_an_epsilon_that_does_not_cover_it(model, announced):
    terms = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=1)
    counting = Counting()
    sent, _ = report(model, announced, counting, privacy=terms)
    assert (sent.keyboard, counting.compared) == (None, [])


def test_a_training_is_not_lost_because_the_keyboard_could_not_be_counted(model, announced):
    for error, why in ((UnavailableError("version 3 is gone"), "version 3 is gone"), (MemoryError(), "memory: ")):
        sent, made = report(model, announced, Counting(error))
        assert (sent.keyboard, sent.steps > 0) == (None, True)
        assert made.keyboard_fault.startswith(why)


def test_a_device_that_must_stop_reports_its_training_without_the_keyboard(model, announced):
    plan = TrainingPlan(**SAYING, keystrokes=True, keep_share=0.01)
    batches = iter([False, False])
    sent, made = report(model, announced, Counting(), plan, lambda: next(batches, True))
    assert (sent.steps, sent.keyboard, made.keyboard_fault) == (2, None, "")


def train_beside(number, phone):
    """Train version 0 while the keyboard has the announced version of a number; returns the log."""
    phone.database.add_once("more", list(TEXTS))
    model = write_model(phone.folder / "files", number)
    phone.artifacts.others[model.sha256] = model
    with structlog.testing.capture_logs() as logs:
        phone.driver.begin()
        phone.hear(Announcement(version=number, manifest=model.sha256))
        phone.pass_time(1)
        phone.work()
        phone.pass_time(120)
        phone.be_assigned(plan=ASKED)
        phone.work()
        phone.work()
    return logs


def test_an_agent_compares_what_it_trains_with_what_its_keyboard_has(tmp_path):
    counting = Counting()
    phone = Phone(tmp_path, keyboard=True, program=Foreseeing, evaluate_keyboard=counting)
    logs = train_beside(3, phone)
    (sent,) = (frame.decode(data) for data in phone.transport.of("report"))
    assert (sent.version, sent.keyboard) == (0, FOUND)
    assert counting.compared == [(0, 3)]
    (line,) = [entry for entry in logs if entry["event"] == "keystrokes_saved"]
    assert (line["letters"], line["saved"], line["announced"], line["saved_announced"]) == (1000, 420, 3, 430)


def test_an_agent_logs_why_its_keyboard_could_not_be_counted(tmp_path):
    counting = Counting(UnavailableError("version 3 is gone"))
    phone = Phone(tmp_path, keyboard=True, program=Foreseeing, evaluate_keyboard=counting)
    logs = train_beside(3, phone)
    assert [entry["why"] for entry in logs if entry["event"] == "keystrokes_not_counted"] == ["version 3 is gone"]
    assert phone.state == "reporting"


def test_an_agent_without_a_keyboard_is_not_asked_to_count(tmp_path):
    counting = Counting()
    phone = Phone(tmp_path, program=Foreseeing, evaluate_keyboard=counting)
    phone.database.add_once("more", list(TEXTS))
    to_report(phone, plan=ASKED)
    assert counting.compared == []
