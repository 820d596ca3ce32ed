"""A Ray cluster of two nodes on this machine."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports

MARKS = [
    pytest.mark.verify,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),  # Ray's logs
]


def with_ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -r requirements/ray.txt")


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[Any, int]]:
    """The cluster, and its port for machines that do not belong to it."""
    with_ray()
    from ray.cluster_utils import Cluster

    (port,) = free_ports(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 1, "include_dashboard": False, "ray_client_server_port": port}
        two = Cluster(initialize_head=True, head_node_args=head)
        try:
            two.add_node(num_cpus=1)
            yield two, port
        finally:
            two.shutdown()
