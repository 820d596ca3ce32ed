"""A coordinator with a day behind it, served, and a browser in front of it."""

from __future__ import annotations

import contextlib
import threading

import pytest

from nightjar.coordinator.access import Role
from nightjar.coordinator.enrolment.claims import Claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.web.server import serving
from nightjar.models.manifest import Manifest
from tests.browser import Watched, chromium  # noqa: F401 - a fixture
from tests.coordinator.web.history import live_through
from tests.coordinator.web.test_api import Service

DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}


class Served:
    """A coordinator behind an address. The tests' changes and those of its pages take turns."""

    def __init__(self, folder, *, lived: bool, enrols: bool = False, **config) -> None:
        self.service = Service(folder, unlimited=True, **config)
        if enrols:
            self.service.open_issuer(folder)
        lock, post = threading.Lock(), self.service._post

        def one_at_a_time(event) -> None:
            with lock:
                post(event)

        self.service._post = one_at_a_time
        if lived:
            with self.service.database.transaction() as tx:
                manifest = tx.version(0).manifest
            weights = Manifest.decode(self.service.world.artifacts.get(manifest)).weights.sha256
            live_through(self.service.database, manifest, weights, self.service.world.clock.now_s())
        self.tokens = {role: self.service.token(role) for role in Role}
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def on(self):
        with serving(self.service.app, "127.0.0.1", self.port):
            yield self
            self.service.app.extensions["pulse"].close()

    def close(self) -> None:
        self.service.database.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A coordinator with thirty rounds behind it, two claims, and a device that waits to be let in."""
    made = Served(tmp_path_factory.mktemp("lived"), lived=True, enrols=True)
    register, now_s = Register(made.service.database), made.service.world.clock.now_s()
    for name, uses in (("shelf", 1), ("cards", 20)):
        claim = Claim(name=name, sha256=name, approval=True, uses=uses, created_s=now_s, expires_s=now_s + 9000)
        register.add_claim(claim, "anna")
    register.redeem("shelf", "f" * 64, "", "192.0.2.7", now_s)
    with made.on():
        yield made
    made.close()


@pytest.fixture
def fresh(tmp_path):
    """A coordinator that nobody has been at yet but the device a."""
    made = Served(tmp_path, lived=False)
    with made.on():
        yield made
    made.close()


@pytest.fixture
def look(chromium):  # noqa: F811 - the fixture
    """Opens a page; fails the test if a page logs an error or asks another host for anything."""
    watched = Watched(chromium)

    def open_(served, path="/", role=None, viewport=DESKTOP, **options):
        page = watched.page(served.url, viewport=viewport, reduced_motion="reduce", **options)
        if role is not None:
            page.goto(f"{served.url}/login?back={path}")
            page.fill("[name=token]", served.tokens[role])
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url(served.url + path)
        else:
            page.goto(served.url + path)
        return page

    open_.expected = watched.expected
    yield open_
    watched.close()
