import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.shell import mqtt_packets as packets
from coordinator.shell.mqtt_packets import Malformed, Message, Reader

TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def read(data: bytes) -> list[tuple[int, bytes]]:
    return list(Reader().feed(data))


def test_the_packets_are_those_of_the_standard():
    # CONNECT, figure 3.6: protocol name, level 4, flags (name, password, clean), keep alive 30
    assert packets.connect("c", "u", "p", 30, clean=True).hex() == "101300044d51545404c2001e000163000175000170"
    assert packets.connect("c", "", "ignored", 30, clean=False).hex() == "100d00044d5154540400001e000163"
    assert packets.subscribe(10, [("a/b", 1)]).hex() == "8208000a0003612f6201"
    assert packets.publish("a/b", b"hi", 10, retain=True).hex() == "33090003612f62000a6869"
    assert packets.again(packets.publish("a/b", b"hi", 10)).hex() == "3a090003612f62000a6869"
    assert packets.puback(258).hex() == "40020102"


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 200_000])
def test_lengths_of_one_to_three_bytes_are_written_and_read(size):
    ((first, body),) = read(packets.publish("t", bytes(size), 1))
    assert packets.read_publish(first, body) == Message("t", bytes(size), retained=False, number=1)


@given(st.lists(st.tuples(TOPICS, st.binary(max_size=300), st.booleans()), max_size=8), st.integers(1, 50))
def test_a_stream_gives_the_same_messages_however_it_is_cut(messages, step):
    stream = b"".join(packets.publish(t, p, n + 1, retain=r) for n, (t, p, r) in enumerate(messages))
    reader, found = Reader(), []
    for at in range(0, len(stream), step):
        found += [packets.read_publish(first, body) for first, body in reader.feed(stream[at : at + step])]
    assert found == [Message(t, p, r, n + 1) for n, (t, p, r) in enumerate(messages)]


@given(st.binary(max_size=200))
def test_any_bytes_are_packets_or_malformed(data):
    try:
        for first, body in read(data):
            packets.read_publish(first, body)
            packets.read_number(body)
            packets.read_connack(body)
    except Malformed:
        pass


def test_a_message_at_qos_0_has_no_number():
    assert packets.read_publish(0x30, b"\x00\x01thello") == Message("t", b"hello", retained=False, number=None)


def test_a_topic_that_is_no_text_is_nobodys():
    assert packets.read_publish(0x32, b"\x00\x01\xff\x00\x07x") == Message("", b"x", retained=False, number=7)


@pytest.mark.parametrize("data", [b"\x30\xff\xff\xff\xff\x01", b"\x30\xff\xff\xff\x7f"])
def test_a_length_that_no_packet_of_ours_has_ends_the_connection(data):
    with pytest.raises(Malformed, match="is it an MQTT broker"):
        read(data)
