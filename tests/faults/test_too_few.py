"""Rounds with too few phones end by their deadline, and say why: on the page, in the log and as a figure."""

import contextlib
import html

import pytest

from nightjar.wire.messages import Status
from tests.faults.world import Coordinator, Phones, publish_retained, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_too_few_phones_and_too_few_reports(tmp_path, mosquitto):
    publish_retained(mosquitto.port, 14, [Status(online=True, state="ineligible", reason="not charging")])
    coordinator = Coordinator(
        tmp_path / "c", mosquitto.port, goal=2, minimum=2, selection_deadline_s=3.0, report_deadline_s=3.0
    )
    one, other = (Phones(tmp_path / name, [name], mosquitto.port, coordinator.url) for name in ("a", "b"))
    one.hold("training")
    other.hold("training")
    with coordinator, contextlib.ExitStack() as phones:
        coordinator.wait_until(lambda s: elsewhere(s) == {"not charging": 14}, "all of the others known")
        phones.enter_context(one)
        lonely = abandoned_for(coordinator, "too-few-devices", "waiting: 1 of 2 phones eligible; 14 not charging")
        assert 3.0 <= lonely["seconds"] < 30.0
        told_everywhere(coordinator, "too-few-devices", lonely["reason"])
        with other:
            row = abandoned_for(coordinator, "too-few-reports")
            assert row["reason"].startswith("0 of 2 needed reports came; dropouts: ")
            assert sum(row["dropped"].values()) == 2
            assert row["seconds"] < 60.0
            told_everywhere(coordinator, "too-few-reports", row["reason"])


def elsewhere(state: dict) -> dict[str, int]:
    return (state["round"] or {}).get("elsewhere", {})


def abandoned_for(coordinator: Coordinator, cause: str, reason: str = "") -> dict:
    """A round that was abandoned for this cause, with a reason that begins so."""

    def fitting(state: dict) -> list[dict]:
        return [row for row in state["rounds"] if row["cause"] == cause and row["reason"].startswith(reason)]

    return fitting(coordinator.wait_until(fitting, f"a round of {cause}, {reason}"))[0]


def told_everywhere(coordinator: Coordinator, cause: str, reason: str) -> None:
    figure = f'nightjar_rounds_abandoned_total{{cause="{cause}"}}'
    wait_until(lambda: reason in html.unescape(page(coordinator, "/")), lambda: page(coordinator, "/"))
    wait_until(lambda: f'cause={cause} reason="{reason}"' in coordinator.log(), coordinator.log)
    wait_until(lambda: figure in page(coordinator, "/metrics"), lambda: page(coordinator, "/metrics"))


def page(coordinator: Coordinator, path: str) -> str:
    return (coordinator.get(path) or b"").decode()
