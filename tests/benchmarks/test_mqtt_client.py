"""The load generator's packets, against the bytes of the specification."""

from hypothesis import given
from hypothesis import strategies as st

from nightjar.benchmarks.mqtt_client import connect, publish, subscribe, take_packets


def test_packets_are_those_of_the_specification():
    assert connect("pi") == b"\x10\x12\x00\x04MQTT\x04\x82\x0e\x10\x00\x02pi\x00\x02pi"
    assert subscribe("a/+") == b"\x82\x08\x00\x01\x00\x03a/+\x01"
    assert publish("a", b"x", 7) == b"\x32\x06\x00\x01a\x00\x07x"
    assert publish("a", b"x" * 200, 7)[:3] == b"\x32\xcd\x01", "the length takes a second byte from 128 on"


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_a_stream_is_cut_into_its_packets_wherever_it_is_broken(payloads, step):
    stream = b"".join(publish("a", payload, 1) for payload in payloads)
    buffer, found = bytearray(), []
    for at in range(0, len(stream), step):
        buffer += stream[at : at + step]
        found += take_packets(buffer)
    assert found == [(0x32, b"\x00\x01a\x00\x01" + payload) for payload in payloads]
    assert not buffer
