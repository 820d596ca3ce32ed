import contextlib
import http.server
import json
import socket
import threading

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.edge_agent.commands import doctor
from nightjar.edge_agent.config import load
from nightjar.edge_agent.core.sandbox import unit_of, wanted
from tests.edge_agent.fake_coordinator import mosquitto, mosquitto_path

CATEGORIES = {
    *("runtime", "storage", "permissions", "processes", "model", "broker", "coordinator", "clock", "conditions"),
    *("service", "sandbox"),
}


def by_name(found):
    return {(check["category"], check["name"]): check for check in found["checks"]}


@pytest.mark.tflite
def test_every_category_is_looked_at_and_every_fault_has_a_remedy(place):
    place.move_in("hello there")
    found = place.json("doctor", status=4)
    assert {check["category"] for check in found["checks"]} == CATEGORIES
    for check in found["checks"]:
        assert check["outcome"] in {"ok", "warning", "failed"}
        assert check["detail"]
        assert bool(check["remedy"]) is (check["outcome"] != "ok"), check
    assert found["failed"] == sum(check["outcome"] == "failed" for check in found["checks"])
    checks = by_name(found)
    assert checks["broker", "connection"]["outcome"] == "failed"
    assert checks["coordinator", "connection"]["outcome"] == "failed"
    assert checks["storage", "database"]["detail"] == "agent.db: ok"
    assert checks["processes", "network"]["detail"] == "trainer and suggester have no network"
    assert checks["permissions", "agent.db"]["detail"] == "mode 0600"


@pytest.mark.tflite
def test_a_person_reads_categories_and_arrows(place):
    said = place.run("doctor", status=4)
    assert "broker\n  failed   connection: 127.0.0.1:9: " in said
    assert "           -> is it running" in said
    assert said.splitlines()[-1].endswith("checks failed")


@pytest.mark.tflite
def test_what_others_could_read_and_what_is_broken_is_said(place):
    place.move_in("hello there")
    place.data.chmod(0o755)
    (place.data / "agent.db").chmod(0o644)
    (place.data / "agent.db").write_bytes(b"x" * 5000)
    place.tree.write("proc/loadavg", "0 0 0 1/1 1")
    checks = by_name(place.json("doctor", status=4))
    assert checks["permissions", "data"]["outcome"] == "failed"
    assert checks["permissions", "agent.db"]["outcome"] == "failed"
    assert checks["storage", "database"]["outcome"] == "failed"
    assert "file is not a database" in checks["conditions", "check"]["detail"]


@pytest.mark.tflite
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_a_fault(place, below):
    place.write()
    place.config.write_text(place.config.read_text().replace('"data"', f'"file/{below}"'))
    (place.config.parent / "file").write_text("in the way")
    folder = by_name(place.json("doctor", status=4))["storage", "folder"]
    assert folder["outcome"] == "failed"
    assert folder["detail"].endswith("file is no folder")


@pytest.mark.tflite
def test_a_required_condition_that_nobody_can_tell_is_a_fault_and_a_lost_one_a_warning(place):
    place.move_in("hello there")
    (place.tree.root / "proc/net/route").unlink()
    place.tree.supply("BAT0", status="Discharging")
    checks = by_name(place.json("doctor", status=4))
    assert checks["conditions", "unmetered"]["outcome"] == "failed"
    assert "conditions.metered" in checks["conditions", "unmetered"]["remedy"]
    assert checks["conditions", "charging"]["outcome"] == "warning"
    assert checks["conditions", "steady-power"]["outcome"] == "ok"


@contextlib.contextmanager
def coordinator(population, date=None):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"population": population}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp=None):
            return date or super().date_time_string(timestamp)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.tflite
@pytest.mark.parametrize(("population", "outcome"), [("demo", "ok"), ("other", "failed")])
def test_the_coordinators_population_is_compared(place, population, outcome):
    with coordinator(population) as url:
        place.config.write_text(place.config.read_text().replace("http://127.0.0.1:9", url))
        checks = by_name(place.json("doctor", status=4))
    assert checks["coordinator", "connection"]["outcome"] == "ok"
    assert checks["coordinator", "population"]["outcome"] == outcome
    assert checks["clock", "time"]["outcome"] == "ok"


@pytest.mark.tflite
def test_a_wrong_clock_is_seen_by_the_coordinators(place):
    with coordinator("demo", "Thu, 01 Jan 2015 00:00:00 GMT") as url:
        place.config.write_text(place.config.read_text().replace("http://127.0.0.1:9", url))
        checks = by_name(place.json("doctor", status=4))
    assert checks["clock", "time"]["outcome"] == "failed"
    assert "timedatectl" in checks["clock", "time"]["remedy"]


@pytest.mark.broker
@pytest.mark.tflite
def test_a_broker_that_answers(place, tmp_path):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    (port,) = free_ports(1)
    place.config.write_text(place.config.read_text().replace("port = 9\n", f"port = {port}\n"))
    with mosquitto(tmp_path, port):
        checks = by_name(place.json("doctor", status=4))
    assert checks["broker", "connection"]["outcome"] == "ok"


@pytest.mark.tflite
@pytest.mark.slow
def test_something_else_on_the_brokers_port_is_not_a_broker(place):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        place.config.write_text(place.config.read_text().replace("port = 9\n", f"port = {port}\n"))
        checks = by_name(place.json("doctor", status=4))
    assert "does not answer as a broker" in checks["broker", "connection"]["detail"]


def sandbox_found(place, monkeypatch, cgroup, shown):
    """What doctor says of a sandbox, where systemd says this of the unit of the process that holds the lock: ours."""
    asked = []

    def run(command, _timeout_s):
        asked.append(command)
        return shown

    place.move_in("hello there")
    config = load(place.config, {})
    monkeypatch.setattr(doctor, "running_agent", lambda _: 1)
    monkeypatch.setattr(doctor, "SYSTEMD", place.data)
    monkeypatch.setattr(doctor, "unit_of", lambda _: unit_of(cgroup))
    monkeypatch.setattr(doctor, "run", run)
    (found,) = [check for check in doctor.examine(config) if check.category == "sandbox"]
    return found, asked[-1]


WHOLE = "\n".join(f"{name}={'read' if value == '*' else value}" for name, value in wanted(of_a_person=False).items())


@pytest.mark.tflite
def test_a_unit_with_its_whole_sandbox_is_fine_and_a_drop_in_that_took_a_part_is_named(place, monkeypatch):
    cgroup = "0::/system.slice/nightjar-agent.service"
    found, asked = sandbox_found(place, monkeypatch, cgroup, WHOLE)
    assert (found.outcome, found.detail) == (doctor.OK, "nightjar-agent.service has its whole sandbox")
    assert asked[:3] == ("systemctl", "show", "nightjar-agent.service")
    found, _ = sandbox_found(place, monkeypatch, cgroup, WHOLE.replace("ProtectHome=yes", "ProtectHome=no"))
    assert found.outcome is doctor.WARNING
    assert "files of the system and of people can be read and changed (ProtectHome=yes)" in found.detail
    assert "systemctl revert nightjar-agent.service" in found.remedy


@pytest.mark.tflite
def test_of_a_persons_own_unit_it_says_what_that_cannot_close(place, monkeypatch):
    cgroup = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nightjar-agent.service"
    found, asked = sandbox_found(place, monkeypatch, cgroup, WHOLE)
    assert asked[:2] == ("systemctl", "--user")
    assert found.outcome is doctor.OK
    assert "beside it files of the system and of people can be read" in found.detail


@pytest.mark.tflite
def test_where_systemd_is_not_it_says_in_words_what_is_open(place, monkeypatch):
    monkeypatch.setattr(doctor, "SYSTEMD", place.data / "none")
    place.move_in("hello there")
    (found,) = [check for check in doctor.examine(load(place.config, {})) if check.category == "sandbox"]
    assert found.outcome is doctor.WARNING
    assert found.detail.startswith("there is no systemd here")
    assert "sockets of every kind can be opened" in found.detail
    assert "a user or a machine of its own" in found.remedy
