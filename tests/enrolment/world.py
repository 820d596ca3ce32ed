"""A coordinator process that asks for certificates, and devices that enrol there."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import urllib3

from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.tls.contexts import http_pool
from nightjar.edge_agent.enrolment.enrolling import enrol
from nightjar.edge_agent.enrolment.identity import FOLDER, EnrolledIdentity, held_identity, tls_context
from tests.coordinator.model_folder import write_model
from tests.processes import end

ROOT = Path(__file__).parents[2]
CUT_OFF = urllib3.Retry(5, allowed_methods=None, redirect=False, status=False)
"""Connections of whoever was shut out are cut off in the midst of what they say; who asks again is told why."""


class World:
    environment: Mapping[str, str] = os.environ
    """Of the process."""

    def __init__(self, folder: Path, kind: str, more: str = "", model: Path | None = None) -> None:
        self.folder = folder
        port, self.broker_port, page_port = free_ports(3)
        if model is None:
            write_model(folder / "model")
        self.path = folder / "coordinator.toml"
        self.path.write_text(
            f"""
            port = {port}
            page_port = {page_port}
            data_dir = "data"
            transport = "tls"
            [broker]
            kind = "{kind}"
            port = {self.broker_port}
            [task]
            model = "{model or "model"}"
            goal = 2
            minimum = 2
            over_selection = 1.0
            selection_window_s = 0.2
            selection_deadline_s = 600.0
            report_deadline_s = 600.0
            retry_after_s = 0.2
            [task.codec]
            name = "dense-f32"
            [limits]
            household = true
            density = 1.0
            {more}
            """
        )
        self.config = load_config(self.path, {})
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "World":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            end(self.process, 120)

    def start(self, *, waits: bool = True) -> None:
        """Start it; ``waits`` until it is healthy, too."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nightjar.coordinator", "serve", "--config", str(self.path)],
                cwd=ROOT,
                stderr=log,
                stdout=log,
                env={**self.environment, "PYTHONPATH": str(ROOT)},
            )
        if waits:
            self.wait_until(self.healthy, "healthy")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def healthy(self) -> bool:
        try:
            with http_pool(self.config) as pool:
                return pool.request("GET", f"{self.config.url}/healthz", timeout=5, retries=False).status == 200
        except Exception:
            return False

    def wait_until(self, holds, what: str, timeout_s: float = 120.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"not {what}; the log:\n{self.log()}")
            time.sleep(0.05)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def ask(self, method: str, path: str, body: object | None = None):
        return ask_service(self.config, method, path, body)

    def claim(self, name: str, **wanted: object) -> Path:
        """The claim file of a card."""
        made = self.ask("POST", "/claims", {"name": name, **wanted})
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({key: made[key] for key in ("claim", "url", "authority", "owner_key")}))
        return path

    def enrolled(self, device: str) -> "Device":
        data_dir = self.folder / device
        enrol(data_dir, self.claim(f"for-{device}", device=device))
        return Device(self, data_dir)

    def audit(self, action: str) -> list[dict]:
        return [each for each in self.ask("GET", "/audit?limit=1000")["items"] if each["action"] == action]

    def standings(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.ask("GET", "/enrolments")["items"]:
            found.setdefault(each["device"], []).append(each["standing"])
        return found


class Device:
    """An enrolled device, and what it can do over HTTPS."""

    def __init__(self, world: World, data_dir: Path) -> None:
        self.world, self.data_dir = world, data_dir

    @property
    def identity(self) -> EnrolledIdentity:
        return held_identity(self.data_dir)

    @property
    def credential(self) -> bytes:
        return (self.data_dir / FOLDER / "credential.pem").read_bytes()

    def context(self):
        return tls_context(self.data_dir, self.identity)

    def request(self, method: str, path: str, body: object | None = None) -> urllib3.BaseHTTPResponse:
        with urllib3.PoolManager(ssl_context=self.context(), assert_hostname=False) as pool:
            url = f"{self.world.config.url}{path}"
            return pool.request(method, url, json=body, timeout=60, retries=CUT_OFF, redirect=False)
