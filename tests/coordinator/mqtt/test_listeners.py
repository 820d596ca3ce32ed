import socket

import pytest

from nightjar.coordinator.mqtt.listeners import check_port_free
from nightjar.wire.errors import ConfigError


def test_a_taken_port_is_named_with_a_remedy():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"{port} \(broker\.port\).*give another port"):
            check_port_free("127.0.0.1", port, "broker.port", "give another port")


def test_an_address_that_is_not_ours_is_named():
    with pytest.raises(ConfigError, match="no-such-host"):
        check_port_free("no-such-host.invalid", 1883, "broker.port", "")
