"""Two coordinators on two hosts, whose jobs a Ray cluster on a third does."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.rounds.round import Phase
from nightjar.wire.messages import Verdict
from tests.brokers import KINDS, wait_for_port
from tests.coordinator.fake_device import devices, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.coordinator.storage.postgresql import fresh_database, server
from tests.hosts.network import hosts
from tests.hosts.world import ROOT, Fleet
from tests.ray_clusters import MARKS, two_nodes

pytestmark = [pytest.mark.postgresql, pytest.mark.broker, *MARKS, *KINDS[1].marks]


@contextlib.contextmanager
def published(port: int, inner: int) -> Iterator[None]:
    """Makes a port of this machine's loopback address one of all its addresses."""
    command = [sys.executable, "-m", "tests.deploy.forwarder", "0.0.0.0", f"{port}:127.0.0.1:{inner}"]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            wait_for_port(port)
            yield
        finally:
            process.terminate()


def test_a_leader_that_dies_while_the_cluster_averages_costs_nothing(tmp_path):
    port, ray_port = free_ports(2)
    with two_nodes() as (_, inner), hosts(2) as places, server(port) as url, published(ray_port, inner):
        fleet = Fleet(tmp_path, places, fresh_database(url, f"ray_{time.monotonic_ns()}"), ray_port)
        try:
            leader, successor = fleet.coordinators
            with devices(fleet.broker.port, "a", "b") as (a, b):
                for each in (a, b):
                    each.check_in()
                for each in (a, b):
                    order = each.wait_for_assignment()
                    frame = report_frame(order, np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, 1)
                    assert each.report_until_receipt(order, frame).verdict is Verdict.ACCEPTED
            leader.wait_until(lambda: fleet.round().phase in {Phase.COMMITTING, Phase.COMMITTED}, "averaging")
            leader.signal(signal.SIGKILL)
            successor.wait_until(successor.leads, "leading")
            successor.wait_until(lambda: fleet.round().phase is Phase.COMMITTED, "done")
            assert fleet.round().reported == 2
            assert fleet.round().version == 1
        finally:
            fleet.close()
