"""``kill -9`` of mosquitto in the middle of a round, with and without what it had kept."""

import re
from datetime import datetime
from itertools import pairwise

import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto
from tests.faults.world import Coordinator, Mosquitto, Phones, check_ledger, wait_until

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed: apt install mosquitto"),
]


@pytest.mark.parametrize("persistent", [True, False], ids=["its sessions kept", "its sessions lost"])
def test_everybody_comes_back_by_themselves_and_nothing_is_lost(tmp_path, persistent):
    with Mosquitto(tmp_path / "broker", persistent=persistent) as broker:
        coordinator = Coordinator(tmp_path / "c", broker.port, rounds=3, goal=6, minimum=4)
        phones = Phones(tmp_path / "phones", [f"phone-{i}" for i in range(8)], broker.port, coordinator.url)
        phones.hold("training")
        with coordinator, phones:
            coordinator.wait_until(lambda s: s["round"] and len(s["round"]["selected"]) == 6, "a cohort")
            phones.wait_for("event=training ")
            if persistent:
                broker.save()
            broker.kill()
            phones.let_go("training")  # so the reports are made while nobody can take them
            phones.wait_for("event=reporting ")
            broker.start()
            coordinator.wait_done()
            check_spread(broker, phones)
        assert (coordinator.starts, phones.starts) == (1, 1)
        ledger = check_ledger(coordinator, phones)
        assert ledger["committed"] == 3
        first = accepted_in_round(phones.log(), 1)
        assert len(first) == 6, "the reports of the round in whose middle it was killed"
        assert ("event=broker_session_lost" in coordinator.log()) is not persistent


def accepted_in_round(log: str, number: int) -> set[str]:
    return set(re.findall(rf"event=receipt device=(\S+) .*round={number} verdict=(?:accepted|duplicate)", log))


def check_spread(broker: Mosquitto, phones: Phones) -> None:
    """They do not come back all at the same moment: each waits a time of its own.

    On a busy machine their process may stand still until the waits of all of them are over, so they have three tries.
    """
    for times in (1, 2, 3):
        if times > 1:
            broker.kill()
            broker.start()
        wait_until(lambda least=1 + times: all(len(found) >= least for found in met(phones).values()), phones.log)
        again = sorted(found[-1] for found in met(phones).values())
        spread_s = (again[-1] - again[0]).total_seconds()
        gaps = [(after - before).total_seconds() for before, after in pairwise(again)]
        print(f"reconnected within {spread_s:.2f} s; the gaps: {', '.join(f'{gap:.2f}' for gap in gaps)} s")
        if spread_s > 0.2 and sum(gap > 0.01 for gap in gaps) >= 4:
            return
    raise AssertionError("they came back all at once")


def met(phones: Phones) -> dict[str, list[datetime]]:
    """When each phone met its broker."""
    found = re.findall(r"timestamp=(\S+) level=info event=broker_connected device=(\S+)", phones.log())
    return {name: [datetime.fromisoformat(when) for when, by in found if by == name] for name in phones.names}
