"""Downloads against a local server that can be told to misbehave."""

import contextlib
import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nightjar.edge_agent.shell.http import Downloader, Patience
from nightjar.wire.backoff import BackOff
from nightjar.wire.errors import IntegrityError, RemoteProtocolError, UnavailableError

DATA = bytes(range(256)) * 1000
NAME = hashlib.sha256(DATA).hexdigest()
QUICK = Patience(tries=4, back_off=BackOff(0.001, 0.001), connect_s=60.0, read_s=60.0, whole_s=600.0)


@dataclass
class Script:
    """What the server does at each request; the last entry stays. Remembers the Range headers, and who asked."""

    answers: list
    ranges: list = field(default_factory=list)
    connections: set = field(default_factory=set)

    def next(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextlib.contextmanager
def serve(*answers):
    script = Script(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            script.connections.add(self.client_address)
            script.ranges.append(self.headers.get("Range"))
            script.next()(self)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(data=DATA, length=None, cut=None):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data) if length is None else length))
        handler.end_headers()
        handler.wfile.write(data[:cut])
        handler.close_connection = cut is not None

    return answer


def ranged(data=DATA, lie=0):
    def answer(handler):
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {start + lie}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start:])

    return answer


def status(code, **headers):
    def answer(handler):
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def never():
    return False


def fetch(url, path, should_stop=never, patience=QUICK):
    downloader = Downloader(url, patience, jitter=lambda: 0.0)
    try:
        downloader.fetch(NAME, path, len(DATA), should_stop)
    finally:
        downloader.hang_up()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "artifact.part"


def test_whole_download(path):
    with serve(whole()) as (url, script):
        fetch(url, path)
    assert path.read_bytes() == DATA
    assert script.ranges == [None]


def test_the_artifacts_of_a_model_come_through_one_connection(tmp_path):
    with serve(whole()) as (url, script):
        downloader = Downloader(url, QUICK)
        for number in range(3):
            downloader.fetch(NAME, tmp_path / f"{number}.part", len(DATA), never)
        assert len(script.connections) == 1
        downloader.hang_up()
        downloader.fetch(NAME, tmp_path / "of the next model.part", len(DATA), never)
        assert len(script.connections) == 2
        downloader.hang_up()


def test_a_connection_that_died_between_two_artifacts_is_no_fault(tmp_path):
    def and_close(handler):
        whole()(handler)
        handler.close_connection = True  # without having said so

    with serve(and_close) as (url, script):
        downloader = Downloader(url, QUICK)
        for number in range(3):
            downloader.fetch(NAME, tmp_path / f"{number}.part", len(DATA), never)
        downloader.hang_up()
    assert len(script.connections) == 3


def test_what_is_left_of_a_refused_body_is_not_taken_for_the_next_answer(path):
    with serve(whole(DATA * 20), whole()) as (url, script):
        downloader = Downloader(url, QUICK)
        with pytest.raises(RemoteProtocolError, match="at most"):
            downloader.fetch(NAME, path, len(DATA), never)
        downloader.fetch(NAME, path, len(DATA), never)
        downloader.hang_up()
    assert path.read_bytes() == DATA
    assert len(script.connections) == 2


def test_a_cut_download_is_continued_where_it_ended(path):
    with serve(whole(cut=100_000), ranged()) as (url, script):
        fetch(url, path)
    assert path.read_bytes() == DATA
    assert script.ranges == [None, "bytes=100000-"]


def test_a_download_of_an_earlier_process_is_continued(path):
    path.write_bytes(DATA[:1234])
    with serve(ranged()) as (url, script):
        fetch(url, path)
    assert path.read_bytes() == DATA
    assert script.ranges == ["bytes=1234-"]


def test_a_server_without_ranges_starts_from_the_beginning(path):
    path.write_bytes(b"old" * 100)
    with serve(whole()) as (url, _):
        fetch(url, path)
    assert path.read_bytes() == DATA


def test_a_bad_beginning_is_thrown_away_and_fetched_anew(path):
    path.write_bytes(b"\xff" * 1000)
    with serve(ranged(), whole()) as (url, script):
        fetch(url, path)
    assert path.read_bytes() == DATA
    assert script.ranges == ["bytes=1000-", None]


def test_a_whole_file_with_no_more_to_come_is_answered_416_and_fetched_anew(path):
    path.write_bytes(DATA + b"more")
    with serve(status(416), whole()) as (url, _):
        fetch(url, path)
    assert path.read_bytes() == DATA


def test_a_range_that_begins_elsewhere_is_not_appended(path):
    path.write_bytes(DATA[:1000])
    with serve(ranged(lie=5), whole()) as (url, _):
        fetch(url, path)
    assert path.read_bytes() == DATA


def test_wrong_bytes_are_refused_after_a_second_try_and_not_kept(path):
    with serve(whole(DATA[::-1])) as (url, script):
        with pytest.raises(IntegrityError, match="expected bytes with that sha256"):
            fetch(url, path)
        assert len(script.ranges) == 2
    assert not path.exists()


def test_more_than_allowed_is_not_written(path):
    with serve(whole(DATA * 20)) as (url, _), pytest.raises(RemoteProtocolError, match="at most 256000 bytes") as fault:
        fetch(url, path)
    assert fault.value.code == "too-large"
    assert path.stat().st_size == 0


@pytest.mark.parametrize("length", [10**15, "1e9", "-5", "9" * 400, "12, 13"])
def test_a_hostile_content_length_is_an_ordinary_fault(path, length):
    impatient = Patience(2, BackOff(0.001, 0.001), 2.0, 0.3, 5.0)
    with serve(whole(length=length)) as (url, _), contextlib.suppress(UnavailableError, RemoteProtocolError):
        fetch(url, path, patience=impatient)
    assert not path.exists() or path.stat().st_size <= len(DATA)


def test_an_artifact_that_is_not_there_is_not_asked_for_again(path):
    with serve(status(404)) as (url, script):
        with pytest.raises(RemoteProtocolError) as fault:
            fetch(url, path)
        assert len(script.ranges) == 1
    assert fault.value.code == "no-artifact"


@pytest.mark.parametrize("code", [500, 503, 302, 204])
def test_another_status_is_tried_a_few_times(path, code):
    with serve(status(code, Location="http://127.0.0.1:1/x")) as (url, script):
        with pytest.raises(UnavailableError, match=f"got {code}"):
            fetch(url, path)
        assert len(script.ranges) == QUICK.tries


def test_a_server_error_that_passes_is_survived(path):
    with serve(status(503), whole()) as (url, _):
        fetch(url, path)
    assert path.read_bytes() == DATA


def test_nobody_there_is_unavailable(path):
    with pytest.raises(UnavailableError, match=r"did not deliver [^()]*$"):
        fetch("http://127.0.0.1:1", path)


def test_a_stop_ends_a_download_and_keeps_what_came(path):
    stops = iter([False, False, True])
    with serve(whole()) as (url, _), pytest.raises(UnavailableError, match="stopped"):
        fetch(url, path, should_stop=lambda: next(stops, True))
    assert 0 < path.stat().st_size < len(DATA)
    assert DATA.startswith(path.read_bytes())
