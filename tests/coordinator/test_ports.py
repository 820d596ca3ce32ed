"""The coordinator's ports are small enough to be faked."""

from typing import Protocol

from nightjar.coordinator import ports


def test_no_port_has_more_than_a_dozen_methods():
    sizes = {
        name: sum(callable(each) for key, each in vars(port).items() if not key.startswith("_"))
        for name, port in vars(ports).items()
        if isinstance(port, type) and Protocol in port.__bases__
    }
    assert sizes["DeviceStore"] > 0
    assert {name: size for name, size in sizes.items() if size > 12} == {}
