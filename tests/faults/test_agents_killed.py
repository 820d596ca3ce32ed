"""``kill -9`` of an agent in every state of its lifecycle, all at once, and of the coordinator beside them."""

import contextlib

import pytest

from nightjar.edge_agent.core.lifecycle import State
from tests.faults.chaos_proxy import HEALTHY, Fault, chaos
from tests.faults.world import Coordinator, Phones, check_ledger, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_killed_in_every_state_they_come_back_and_the_rounds_are_what_they_would_have_been(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, rounds=2, goal=4, minimum=4, report_deadline_s=200.0)
    with chaos(coordinator.port) as downloads:
        coordinator_url, slow_url = coordinator.url, f"http://127.0.0.1:{downloads.port}"

        def phone(state: str, **changes) -> Phones:
            setting = {"url": coordinator_url, **changes}
            return Phones(tmp_path / "phones", [f"in-{state}"], mosquitto.port, **setting)

        ineligible, checked_in, resting = phone("ineligible"), phone("checked-in"), phone("resting")
        settling, preparing = phone("settling", hysteresis_s=1000), phone("preparing", url=slow_url)
        training, finishing, reporting = phone("training"), phone("finishing"), phone("reporting")
        at_work = (preparing, training, finishing, reporting)
        everyone = [*at_work, ineligible, settling, checked_in, resting]
        assert {one.names[0][3:] for one in everyone} == {state.__struct_config__.tag for state in State.__args__}

        downloads.fault = Fault(black_hole=True)
        for one in (training, finishing, reporting):
            one.hold("training")
        ineligible.hold("unplugged")
        with contextlib.ExitStack() as stack:
            for one in everyone:
                stack.callback(one.stop)
            stack.enter_context(coordinator)
            for one in at_work:
                one.start()
            preparing.wait_for("event=preparing ")
            for one in (training, finishing, reporting):
                one.wait_for("event=training ")
            finishing.hold("unplugged")
            resting.start()
            resting.wait_for("event=resting ")
            coordinator.kill()
            reporting.let_go("training")
            for one in (ineligible, settling, checked_in):
                one.start()
            for one in everyone:
                state = one.names[0][3:].replace("-", "_")
                one.wait_for(f"event={state} " if state != "ineligible" else "event=broker_connected ")
            for one in everyone:
                one.kill()

            downloads.fault = HEALTHY
            settling.change(hysteresis_s=0.1)
            for one in (training, finishing):
                one.let_go("training")
            for one in (ineligible, finishing):
                one.let_go("unplugged")
            for one in everyone:
                one.start()
            coordinator.start()
            coordinator.wait_done()
            for one in everyone:
                wait_until(lambda phone=one: back_to_work(phone), one.log)
        left = [line for one in everyone for line in one.log().splitlines() if "event=agent_started" in line]
        assert {line.rsplit("left_while=", 1)[1] for line in left} >= {one.names[0][3:] for one in everyone}
        ledger = check_ledger(coordinator, *everyone)
        assert (ledger["committed"], ledger["abandoned"], ledger["reports"]) == (2, 0, 8)
        assert "round=1" in receipts_of(reporting)[0], "the report that it had made before it was killed"
        for one in (preparing, training, finishing):
            assert "event=dropped_out" in one.log()
            assert "cause=restarted" in one.log()


def back_to_work(phone: Phones) -> bool:
    """Since its last start it came as far as offering itself, or to the receipt that it had been waiting for."""
    _, *lives = phone.log().split("event=agent_started ")
    since = lives[-1] if len(lives) == phone.starts else ""
    return "event=checked_in " in since or "event=receipt " in since


def receipts_of(phone: Phones) -> list[str]:
    wait_until(lambda: "event=receipt " in phone.log(), phone.log)
    found = [line for line in phone.log().splitlines() if "event=receipt " in line]
    assert all("verdict=accepted" in line or "verdict=duplicate" in line for line in found), found
    return found
