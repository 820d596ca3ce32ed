import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.sessions import Sessions, in_use
from tests.edge_agent.shell.probes.fake_device import settled


def session(**changes):
    usual = {"Class": "user", "Seat": "seat0", "Active": "yes", "IdleHint": "no", "LockedHint": "no"}
    return "\n".join(f"{name}={value}" for name, value in (usual | changes).items())


@pytest.mark.parametrize(
    ("shown", "answer"),
    [
        (session(), True),
        (session(IdleHint="yes"), False),
        (session(LockedHint="yes"), False),
        (session(Active="no"), False),
        (session(Seat=""), False),  # over ssh: its hint stays at "no" for ever
        (session(Class="manager-early"), False),
        (session(Class="greeter"), False),
        (session(Class="background") + "\n\n" + session(), True),
        ("", False),
        ("nonsense", False),
    ],
)
def test_only_a_person_in_the_foreground_at_a_seat_uses_the_device(shown, answer):
    assert in_use(shown) is answer


def test_every_session_is_asked_for(programs):
    def loginctl(command):
        if "list-sessions" in command:
            return "     2 1000 ann  seat0 tty2\n    c1  111 gdm  seat0 tty1\n"
        assert command[-2:] == ("2", "c1")
        return session(IdleHint="yes") + "\n\n" + session(Class="greeter")

    programs.answers["loginctl"] = loginctl
    reading = settled(Sessions(programs))[Condition.IDLE]
    assert (reading.value, reading.source) == (Answer.YES, "logind")


def test_a_device_on_which_nobody_is_logged_in_is_idle(programs):
    programs.answers["loginctl"] = ""
    assert settled(Sessions(programs))[Condition.IDLE].value is Answer.YES


def test_without_logind_it_is_unknown_and_why(programs):
    reading = settled(Sessions(programs))[Condition.IDLE]
    assert reading.value is Answer.UNKNOWN
    assert "loginctl" in reading.reason
