import itertools

import pytest
import structlog
from structlog.testing import capture_logs

from nightjar.edge_agent.link.connection import Connection, decoded


@pytest.fixture
def kept():
    return []


@pytest.fixture
def connection(kept):
    return Connection(itertools.count(1.0).__next__, kept.append, structlog.get_logger())


def test_a_refusal_is_logged_once_however_often_the_broker_and_the_coordinator_refuse(connection, kept):
    connection.begin()
    with capture_logs() as lines:
        for _ in range(60):
            connection.down("Unspecified error")
            connection.told("an operator blocked this device: lost")
        connection.up()
    assert [line["event"] for line in lines] == ["broker_unreachable", "refused_by_coordinator", "broker_connected"]
    reasons = [decoded(each).reason for each in kept]
    assert reasons == ["it has not connected yet", "Unspecified error", "an operator blocked this device: lost", ""]
    assert [decoded(each).since_s for each in kept] == [1.0, 1.0, 1.0, 2.0], "since the connection was lost"


def test_after_the_refusal_is_over_the_broker_is_blamed_again(connection, kept):
    connection.told("revoked")
    connection.told("")
    with capture_logs() as lines:
        connection.down("no broker answers")
    assert [line["event"] for line in lines] == ["broker_unreachable"]
    assert decoded(kept[-1]).reason == "no broker answers"
