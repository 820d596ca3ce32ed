"""The inside of a machine, played by a thread that speaks the guest agent's protocol."""

import base64
import json
import socket
import threading

import pytest

from nightjar.firmware_scripts.twin.guest import Guest
from nightjar.firmware_scripts.twin.person import sentences, set_charging, type_sentences
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from tests.firmware_scripts.twin.power import what_the_kernel_says


class Inside:
    """Answers with what ``programs`` gives: (status, output) for (path, arguments, standard input)."""

    def __init__(self, path, programs):
        self.asked = []
        self.files, self.open, self.closed = {"/etc/hostname": b"twin-01"}, [], []
        self._programs = programs
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._server.close()

    def _serve(self):
        while True:
            try:
                channel, _ = self._server.accept()
            except OSError:
                return
            with channel, channel.makefile("rwb") as stream:
                stream.write(b'{"return": "to somebody before"}\n')
                for line in stream:
                    question = json.loads(line.lstrip(b"\xff"))
                    arguments = question.get("arguments", {})
                    answer = getattr(self, question["execute"].replace("-", "_"))(arguments)
                    before = b"\xff" if question["execute"] == "guest-sync-delimited" else b""
                    stream.write(before + json.dumps(answer).encode() + b"\n")
                    stream.flush()

    def guest_sync_delimited(self, arguments):
        return {"return": arguments["id"]}

    def guest_ping(self, _):
        return {"return": {}}

    def guest_exec(self, arguments):
        given = base64.b64decode(arguments.get("input-data", "")).decode()
        self.asked.append((arguments["path"], tuple(arguments["arg"]), given))
        if arguments["path"] == "/missing":
            return {"error": {"class": "GenericError", "desc": "Failed to execute child process"}}
        return {"return": {"pid": 7}}

    def guest_file_open(self, arguments):
        if arguments["path"] not in self.files:
            return {"error": {"class": "GenericError", "desc": "No such file or directory"}}
        self.open.append(arguments["path"])
        return {"return": len(self.open)}

    def guest_file_read(self, arguments):
        data = self.files[self.open[arguments["handle"] - 1]][: arguments["count"]]
        return {"return": {"count": len(data), "buf-b64": base64.b64encode(data).decode(), "eof": True}}

    def guest_file_close(self, arguments):
        self.closed.append(arguments["handle"])
        return {"return": {}}

    def guest_exec_status(self, _):
        status, output = self._programs(*self.asked[-1])
        return {"return": {"exited": True, "exitcode": status, "out-data": base64.b64encode(output.encode()).decode()}}


@pytest.fixture
def inside(tmp_path):
    made = []

    def make(programs):
        made.append(Inside(tmp_path / "guest", programs))
        return made[0], Guest(tmp_path / "guest")

    yield make
    for one in made:
        one.close()


def test_a_program_inside_says_how_it_ended(inside):
    _, guest = inside(lambda *_: (3, "no such thing"))
    guest.wait_until_there(5.0)
    done = guest.run(["/bin/cat", "x"])
    assert (done.status, done.output) == (3, "no such thing")
    with pytest.raises(UnavailableError, match="ended with 3"):
        guest.shell("cat x")


def test_a_program_that_is_not_there_is_refused(inside):
    _, guest = inside(lambda *_: (0, ""))
    with pytest.raises(RemoteProtocolError, match="Failed to execute"):
        guest.run(["/missing"])


def test_a_machine_without_an_inside_does_not_answer(tmp_path):
    with pytest.raises(UnavailableError, match="does not answer"):
        Guest(tmp_path / "guest").shell("true")


def test_the_plug_is_pulled_through_the_kernels_own_parameters(inside):
    there, guest = inside(lambda *_: (0, ""))
    set_charging(guest, charging=False)
    script = there.asked[-1][1][1]
    assert "echo off > /sys/module/test_power/parameters/ac_online" in script
    assert "echo discharging > /sys/module/test_power/parameters/battery_status" in script


def test_what_the_kernel_says_is_read_by_file(inside):
    _, guest = inside(lambda *_: (0, "test_ac/online:1\ntest_battery/status:Charging\n"))
    assert what_the_kernel_says(guest) == {"test_ac/online": "1", "test_battery/status": "Charging"}


def test_what_is_typed_goes_in_by_standard_input_and_never_onto_a_command_line(inside):
    there, guest = inside(lambda *_: (0, "kept 2\n"))
    assert type_sentences(guest, ["see you soon", "good morning"], 5.0) == 2
    path, arguments, given = there.asked[-1]
    assert [json.loads(line)["text"] for line in given.splitlines()] == ["see you soon", "good morning"]
    assert not any("see you soon" in word for word in (path, *arguments))


def test_a_keyboard_that_is_not_up_yet_is_no_success(inside):
    _, guest = inside(lambda *_: (1, "Traceback\nConnectionRefusedError\n"))
    with pytest.raises(UnavailableError, match="ConnectionRefused"):
        type_sentences(guest, sentences(), 5.0)


def test_a_file_inside_is_read_without_a_program(inside):
    machine, guest = inside(lambda *_: (0, ""))
    assert guest.read("/etc/hostname") == b"twin-01"
    assert guest.read("/etc/nothing") is None
    assert (machine.asked, machine.closed) == ([], [1])
