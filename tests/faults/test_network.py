"""Bad networks between agents and their broker: slow, cut in the middle of uploads, silent."""

import pytest

from tests.faults.chaos_proxy import HEALTHY, Fault, chaos
from tests.faults.world import Coordinator, Phones, check_ledger, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def network(mosquitto):
    with chaos(mosquitto.port) as one:
        yield one


def test_slow_cut_and_silent_networks_cost_time_and_no_report(tmp_path, mosquitto, network):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, rounds=4, goal=4, minimum=4)
    names = [f"phone-{i}" for i in range(4)]
    # A connection that is silent for 1.5 keep-alives is given up, by the agent and by the broker.
    phones = Phones(tmp_path / "phones", names, network.port, coordinator.url, keep_alive_s=2)
    network.fault = Fault(delay_s=0.1, rate_bytes_per_s=20_000)
    phones.hold("training")

    def reach_training(number: int) -> None:
        coordinator.wait_until(lambda s: s["round"] and len(s["round"]["selected"]) == 4, f"round {number}")
        wait_until(lambda: phones.log().count("event=training ") >= 4 * number, phones.log)

    def commit(number: int, hold: bool = True) -> None:
        wait_until(lambda: phones.log().count("event=trained ") >= 4 * number, phones.log)
        if hold:
            phones.hold("training")
        coordinator.wait_until(lambda s: s["counters"]["rounds_committed"] == number, f"round {number} committed")

    with coordinator, phones:
        reach_training(1)  # with a tenth of a second each way and 20 kB/s
        phones.let_go("training")
        commit(1)

        network.fault = HEALTHY
        reach_training(2)
        cuts = network.cuts
        network.fault = Fault(cut_after_bytes=400)  # a report has 652 bytes and more
        phones.let_go("training")
        wait_until(lambda: network.cuts >= cuts + 4, lambda: f"{network.cuts} cuts")
        network.fault = HEALTHY
        commit(2)

        reach_training(3)
        network.fault = Fault(black_hole=True)
        before = phones.log().count("event=broker_unreachable ")
        phones.let_go("training")
        wait_until(lambda: phones.log().count("event=broker_unreachable ") >= before + 4, phones.log)
        network.fault = HEALTHY
        commit(3)

        reach_training(4)
        network.fault = Fault(refuse=True)
        phones.let_go("training")
        wait_until(lambda: phones.log().count("event=trained ") >= 16, phones.log)
        network.fault = HEALTHY
        coordinator.wait_done()
    assert (coordinator.starts, phones.starts) == (1, 1)
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["reports"]) == (4, 16)
