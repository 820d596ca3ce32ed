"""A log that strangers can write into stays short, and still tells of each of them."""

from hypothesis import given
from hypothesis import strategies as st

from nightjar.host.limited_log import LINES_AN_HOUR, LimitedLog, LineLimit

HANDSHAKE = b"1764364800: OpenSSL Error[0]: error:0A0000C7:SSL routines::peer did not return a certificate"


def test_one_address_gets_so_many_lines_an_hour_and_another_its_own():
    limit = LineLimit()
    loud = [limit.admitted(b"%d: Client from 203.0.113.9:%d disconnected" % (n, n), n * 0.001) for n in range(9999)]
    assert sum(map(len, loud)) == LINES_AN_HOUR
    assert limit.admitted(b"1: Client from 203.0.113.10:5 disconnected", 1.0)
    told = limit.admitted(b"1: Client from 203.0.113.9:5 disconnected", 3600.0)
    assert told[0] == b"%d more lines of 203.0.113.9 were left out" % (9999 - LINES_AN_HOUR)


def test_lines_without_an_address_are_counted_by_kind_whatever_numbers_are_in_them():
    limit = LineLimit()
    assert sum(len(limit.admitted(b"%d" % n + HANDSHAKE, 0.0)) for n in range(1000)) == LINES_AN_HOUR
    assert limit.admitted(b"17: Warning: Mosquitto is out of memory", 0.0)


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_whatever_comes_the_files_stay_short(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("log") / "broker.log"
    log = LimitedLog(path, most_bytes=500)
    for at, line in enumerate(lines):
        log.write(line * 5, float(at))
    assert sum(each.stat().st_size for each in path.parent.iterdir()) <= 2 * (500 + 1001)


def test_addresses_without_number_take_no_memory():
    limit = LineLimit()
    for n in range(20_000):
        limit.admitted(b"New connection from 10.%d.%d.%d" % (n // 65536, n // 256 % 256, n % 256), 0.0)
    assert len(limit._counted) <= 4096


def test_a_disk_that_is_full_loses_lines_and_nothing_else(tmp_path):
    LimitedLog(tmp_path / "gone" / "broker.log").write(b"line", 0.0)
