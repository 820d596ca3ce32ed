"""Two pages that walk through the code: a real report, and a real device's day, go the way that they describe."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace

import numpy as np

from nightjar.coordinator.config import BrokerConfig
from nightjar.coordinator.learning.fedavg import ClientUpdate, Contribution
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.records.inbox import MessageArrived
from nightjar.coordinator.records.jobs import ReportFile
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.rounds.events import ReportReceived
from nightjar.coordinator.rounds.round import Phase
from nightjar.wire import frame, topics
from nightjar.wire.codec import Sparse
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Receipt, Verdict
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import POPULATION, World
from tests.coordinator.model_folder import LAYOUT, write_model
from tests.edge_agent.fakes import Phone

ROOT = Path(__file__).parents[1]
PACKAGES = ("coordinator", "edge_agent", "wire")
MOST_FILES = 10

Call = tuple[str, str]
"""(path, qualified name of the function)."""


def stops(page: str) -> list[Call]:
    """The files and functions of a page, in its order."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"^\d+\. \[`([^`]+)`\]\(\.\./([^)]+)\)\s+`([^`]+)`", text, re.MULTILINE)
    assert all(shown == linked for shown, linked, _ in found)
    assert len(found) == len(re.findall(r"^\d+\. ", text, re.MULTILINE))
    return [(path, function) for path, _, function in found]


def calls_of(story: Callable[[], object], wanted: Callable[[FrameType], bool]) -> list[Call]:
    """Every call of ours during a story, in its order."""
    calls: list[Call] = []

    def note(called: FrameType, event: str, _arg: object) -> None:
        path = Path(called.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "nightjar"):
            place = str(path.relative_to(ROOT / "nightjar"))
            if place.startswith(PACKAGES) and wanted(called):
                calls.append((place, called.f_code.co_qualname))

    sys.setprofile(note)
    try:
        story()
    finally:
        sys.setprofile(None)
    return calls


def arguments(called: FrameType) -> Iterator[object]:
    code = called.f_code
    return (called.f_locals[name] for name in code.co_varnames[: code.co_argcount] if name in called.f_locals)


def in_order(files: list[str], calls: list[Call]) -> bool:
    """Whether the files are first called in this order."""
    first = list(dict.fromkeys(path for path, _ in calls if path in files))
    return first == files


def test_a_report_goes_the_way_of_its_page(tmp_path):
    world = World(write_model(tmp_path), tmp_path)
    world.check_in("a", "b")
    sent = {
        name: report_frame(world.assignment(name), np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, 5)
        for name in ("a", "b")
    }
    world.receive("a", "report", sent["a"])
    session = MqttSessions(BrokerConfig(), POPULATION, 1, world.driver.handle)._sessions[0]
    topic = topics.up(POPULATION, DeviceId("b"), "report", 1)
    message = SimpleNamespace(topic=topic, payload=sent["b"], qos=0, mid=1, retain=False)
    kinds = (MessageArrived, StoredReport, frame.Report, ReportReceived, ReportFile, ClientUpdate, Contribution, Sparse)

    def is_report(value: object) -> bool:
        if isinstance(value, tuple | list):
            return any(map(is_report, value))
        return value is message or isinstance(value, kinds) or (isinstance(value, bytes) and value == sent["b"])

    def story() -> None:
        session._on_message(SimpleNamespace(subscribe=lambda _: None), None, message)
        world.work()

    calls = calls_of(story, lambda called: any(map(is_report, arguments(called))))
    assert world.phase_of(1) is Phase.COMMITTED
    walk = stops("life-of-a-report.md")
    files = [path for path, _ in walk]
    assert len(files) <= MOST_FILES
    assert {path for path, _ in calls} == set(files)
    assert in_order(files, calls)
    assert set(walk) <= set(calls)


def test_a_device_spends_its_day_as_its_page_says(tmp_path):
    phone = Phone(tmp_path)

    def story() -> None:
        phone.check_in()
        phone.be_assigned(7)
        phone.work()
        phone.work()
        phone.hear(Receipt(round=7, attempt=1, verdict=Verdict.ACCEPTED))

    calls = calls_of(story, lambda _: True)
    assert phone.state == "resting"
    walk = stops("a-devices-day.md")
    assert len(walk) <= MOST_FILES
    assert set(walk) <= set(calls)
    at = -1
    for stop in walk:
        at = calls.index(stop, at + 1)
