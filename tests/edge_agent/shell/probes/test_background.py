import threading

from nightjar.edge_agent.shell.probes.background import Background
from nightjar.wire.errors import UnavailableError


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def test_nobody_waits_and_one_question_is_under_way():
    may_answer, asked = threading.Event(), []

    def ask():
        asked.append(1)
        may_answer.wait(30)
        return "yes"

    clock = Clock()
    question = Background(ask, 10.0, clock)
    for _ in range(5):
        said = question.latest()
        assert (said.answer, said.reason) == (None, "asked for the first time just now")
    may_answer.set()
    question.wait(10)
    clock.now_s += 4
    assert (question.latest().answer, question.latest().age_s, len(asked)) == ("yes", 4.0, 1)
    clock.now_s += 7
    assert question.latest().age_s == 11.0
    question.wait(10)
    assert question.latest().age_s == 0.0
    assert len(asked) == 2


def test_an_answer_that_stops_coming_grows_old():
    answers = iter(["yes"])
    stuck = threading.Event()
    clock = Clock()
    question = Background(lambda: next(answers, None) or stuck.wait(30), 10.0, clock)
    question.latest()
    question.wait(10)
    clock.now_s += 100
    question.latest()
    clock.now_s += 100
    assert (question.latest().answer, question.latest().age_s) == ("yes", 200.0)
    stuck.set()
    question.wait(10)


def test_a_failure_replaces_the_answer_by_its_reason():
    def ask():
        raise outcomes.pop(0)

    outcomes = [UnavailableError("not installed"), ValueError("secret text")]
    clock = Clock()
    question = Background(ask, 10.0, clock)
    for reason in ("not installed", "not understood (ValueError)"):
        question.latest()
        question.wait(10)
        assert (question.latest().answer, question.latest().reason) == (None, reason)
        clock.now_s += 11
        question.latest()
        question.wait(10)
