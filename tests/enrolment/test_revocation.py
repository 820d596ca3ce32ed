"""Revocation while the authority is dead, hangs or is slow, after 64,000 revocations."""

import contextlib
import itertools
import json
import sys

import pytest
import sqlalchemy as sa
import urllib3

from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.enrolment.claims import KeyState
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.tables import credentials
from nightjar.coordinator.tls.contexts import http_pool
from tests.brokers import KINDS
from tests.enrolment.test_rounds import WITHIN_S, connected
from tests.enrolment.world import World

pytestmark = pytest.mark.broker

REVOKED = 64_000


class Moody(World):
    """A coordinator whose authority does as it is told, after a fleet was forgotten."""

    def __init__(self, folder, kind: str) -> None:
        self.mood = folder / "mood"
        self.mood.write_text("signing")
        module = [sys.executable, "-m", "tests.enrolment.moody_authority", str(folder / "ca"), str(self.mood)]
        super().__init__(folder, kind, f"[enrolment]\nsigner = {json.dumps(module)}")
        self.config.data_dir.mkdir(mode=0o700)
        database = Database(database_url(self.config))
        row = dict.fromkeys(("claim", "csr", "certificate", "authority", "address"), "")
        row |= {"standing": KeyState.REVOKED.value, "requested_s": 0.0, "expires_s": WallClock().now_s() + 86400}
        rows = ({**row, "key": f"{n:064d}", "device": f"gone-{n}", "serial": f"{n}"} for n in range(1, REVOKED + 1))
        with database.connection() as tx:
            while some := list(itertools.islice(rows, 1000)):
                tx.execute(sa.insert(credentials), some)
        database.close()

    @contextlib.contextmanager
    def authority(self, mood: str):
        self.mood.write_text(mood)
        try:
            yield
        finally:
            self.mood.write_text("signing")

    def health(self) -> tuple[int, list[str]]:
        with http_pool(self.config) as pool:
            answer = pool.request("GET", f"{self.config.url}/healthz", timeout=60)
        return answer.status, answer.json()["reasons"]


@pytest.fixture(scope="module", params=KINDS)
def moody(request, tmp_path_factory):
    with Moody(tmp_path_factory.mktemp("moody"), request.param) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["dead", "hanging", "slow"])
def test_a_forgotten_device_is_out_in_five_seconds_whatever_the_authority_does(moody, mood):
    """Proven before: with an authority that was dead or hung the session went on, and nothing said so."""
    device = moody.enrolled(f"pi-{mood}")
    context = device.context()
    with moody.authority(mood):
        with connected(device) as fake:
            assert fake.subscribed.wait(60)
            moody.ask("POST", f"/devices/pi-{mood}/forget", {})
            assert fake.lost.wait(WITHIN_S)
        with urllib3.PoolManager(ssl_context=context, assert_hostname=False) as pool:
            assert pool.request("GET", f"{moody.config.url}/api/v1/enrolment/self", timeout=60).status == 403
        if mood != "slow":
            moody.wait_until(lambda: moody.health()[0] == 503, "impaired")
            assert any("revocation is impaired" in reason for reason in moody.health()[1])
            is_kept_out(device)
    moody.wait_until(lambda: moody.health() == (200, []), "mended")


def is_kept_out(device) -> None:
    """It is refused; or, where the broker cannot know its certificate yet, hears nothing and is soon thrown out."""
    try:
        with connected(device) as fake:
            assert fake.lost.wait(WITHIN_S)
            assert fake.arrived.empty(), "not even what is retained for everybody"
    except OSError:
        pass
