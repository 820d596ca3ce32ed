import pytest

from benchmarks.handshakes import at_broker, at_https, place_in
from coordinator.config import BrokerKind


@pytest.mark.broker
def test_connections_with_mutual_tls_come_about_at_the_broker_and_at_https(tmp_path):
    with place_in(tmp_path) as place:
        rows = [at_broker(place, BrokerKind.EMBEDDED, 3, 2), at_https(place, 3, 2)]
    assert [row["connections"] for row in rows] == [3, 3]
    assert all(row["per_minute"] > 0 and row["p50_ms"] > 0 for row in rows)
