"""Ends the access of revoked and blocked devices within seconds, open connections included.

One thread compares the register with the servers' files every second, so a change counts wherever it was made (a page,
the command line, the driver). It writes the refused certificates to the files, makes the servers reload them, and ends
open connections. It never waits for the authority. Another thread has the authority sign the list that mosquitto needs;
until then mosquitto denies every topic to the device by its name, and the device's session is ended at each check.
A device that exceeds its rate limit (:mod:`nightjar.coordinator.rate_limits`) is refused in the same way without the
authority. When it is let in again, its session is ended once more, so that it subscribes anew.
Every step is idempotent, so nothing is stored across a restart. A failed step is retried, and meanwhile reported as a
trouble of the service.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Collection

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.config import BrokerConfig, CoordinatorConfig
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.ports import Clock
from nightjar.coordinator.tls.authority_process import AuthorityClient
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import Changes, refuse, revoked_serials, sign
from nightjar.wire import topics
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.identifiers import DeviceId, Population

LOOK_S = 1.0
REFRESH_S = 5.0
"""How often server certificates and authorities are checked: they change rarely. New revocations are signed at once.
A certificate of a new authority is accepted only after this check."""
EVICT_AT_LOOKS = frozenset({0, 1, 2, 20, 40, 60, 80, 100})
"""Checks after a revocation at which sessions are ended. The first ones are close together, because a broker reads its
files a moment after the signal. The later ones cover a client that finished its TLS handshake before the revocation:
mosquitto accepts its CONNECT for up to 90 s."""
MOST_LOOKS = max(EVICT_AT_LOOKS) + 1
TELL_AGAIN_AT_LOOKS = frozenset({1, 5, 25})
"""Checks after a change at which the servers are told of it again: mosquitto loses a SIGHUP that arrives while it reads
its files for an earlier one, and a device that was let in again would stay out."""
PATIENCE_LOOKS = 3
"""Checks after a revocation at which a list that is still not signed is reported as a trouble."""
EVICTION_TIMEOUT_S = 3.0

IMPAIRED = "revocation is impaired"
"""How the troubles of this module begin."""

_log = structlog.get_logger("coordinator")


class RevocationEnforcer:
    """Enforces revocations in its own threads until it is closed.

    ``changed`` makes the servers reload their files, and is called from any thread, with no change to tell them again.
    ``evict`` ends the open connections of devices and of certificates, or raises UnavailableError. ``flooding`` returns
    the devices that are cut off now.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        register: Register,
        signer: AuthorityClient,
        clock: Clock,
        changed: Callable[[Changes], None],
        evict: Callable[[Collection[DeviceId], Collection[str]], None],
        distrust: Callable[[], str] = str,
        flooding: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._distrust = distrust  # why the clock is not trusted; empty if it is
        self._config, self._register, self._signer, self._clock = config, register, signer, clock
        self._changed, self._evict, self._flooding = changed, evict, flooding
        self._held_off: dict[str, DeviceId] = {}  # of devices that are cut off now
        self._look_number, self._told_at_look = 0, -max(TELL_AGAIN_AT_LOOKS)
        self._out: dict[str, DeviceId] = {}
        self._looks: dict[str, int] = {}  # serial -> checks since its revocation
        self._signed: frozenset[str] = frozenset()
        self._written: tuple[Collection[str], Collection[DeviceId]] | None = None
        self._troubles: dict[str, str] = {}
        self._closing, self._to_sign, self._to_look = threading.Event(), threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(self.look, self._until_next_look), name="gate", daemon=True),
            threading.Thread(target=self._repeat, args=(self.sign, self._until_asked), name="gate signer", daemon=True),
        ]

    @property
    def troubles(self) -> list[str]:
        """Why a revocation may not be in force everywhere; empty if all are. Thread-safe."""
        return [f"{IMPAIRED}: {reason}" for reason in list(self._troubles.values())]

    def start(self) -> None:
        """Start checking; connections of certificates that were already revoked are not ended again."""
        self._out = self._register.shut_out(self._clock.now_s())
        self._signed = revoked_serials(self._config.data_dir / FOLDER)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop checking."""
        self._closing.set()
        self._to_sign.set()
        self._to_look.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=10)

    def look_now(self) -> None:
        """Check without waiting for the next turn; returns at once, and may be called from any thread."""
        self._to_look.set()

    def look(self) -> None:
        """Refuse and disconnect every revoked or blocked device, without asking the authority.

        Raises:
            NightjarError: the database, the disk or the broker does not work now.
        """
        self._look_number += 1
        if self._look_number - self._told_at_look in TELL_AGAIN_AT_LOOKS:
            self._changed(Changes(server=False, authorities=False, revoked=False))
        before, out = self._out, self._register.shut_out(self._clock.now_s())
        self._out, unsigned = out, out.keys() - self._signed
        self._looks |= dict.fromkeys(out.keys() - before.keys(), 0)
        if out.keys() != before.keys():
            self._to_sign.set()
        held_off = self._register.certificates(self._flooding(), self._clock.now_s())
        wanted = (out.keys() | held_off.keys(), {out[serial] for serial in unsigned} | set(held_off.values()))
        if wanted != self._written:
            if refuse(self._config, *wanted):
                self._tell(Changes(server=False, authorities=False, revoked=True))
            self._written = wanted
        due = unsigned | {serial for serial, looks in self._looks.items() if looks in EVICT_AT_LOOKS and serial in out}
        if due:
            self._evict({out[serial] for serial in due}, due)
        self._hold_off(held_off)
        if any(self._looks.get(serial, MOST_LOOKS) >= PATIENCE_LOOKS for serial in unsigned):
            self._troubles["list"] = f"{len(unsigned)} revoked certificate(s) wait for the authority's signature"
        else:
            self._troubles.pop("list", None)
        self._looks = {
            serial: looks + 1 for serial, looks in self._looks.items() if serial in out and looks < MOST_LOOKS
        }

    def _hold_off(self, held_off: dict[str, DeviceId]) -> None:
        let_in_again = {serial: device for serial, device in self._held_off.items() if serial not in held_off}
        flooding = held_off | let_in_again
        try:
            if flooding:
                self._evict(set(flooding.values()), flooding.keys())
        except UnavailableError as error:
            # The broker is busy with the flood. It is no trouble of the service, or a device could make one.
            _log.debug("flood_not_ended", reason=str(error), again="at the next check")
        else:
            self._held_off = held_off

    def sign(self) -> None:
        """Have the authority sign revocation lists and server certificates that are due.

        Raises:
            NightjarError: the disk or the authority does not work now.
        """
        if self._distrust():  # who is revoked is refused by name until then
            return
        out = frozenset(self._out)
        changes = sign(self._config, self._signer, out, self._clock.now_s())
        if changes:
            self._tell(changes)
        self._signed = out  # only after the brokers reloaded: now a check may lift the denial by name
        self._written = None  # 'authority prepare' may have rewritten the folder

    def _tell(self, changes: Changes) -> None:
        self._changed(changes)
        self._told_at_look = self._look_number

    def _until_next_look(self) -> None:
        self._to_look.wait(LOOK_S)
        self._to_look.clear()

    def _until_asked(self) -> None:
        self._to_sign.wait(REFRESH_S)
        self._to_sign.clear()

    def _repeat(self, work: Callable[[], None], pause: Callable[[], None]) -> None:
        name = threading.current_thread().name
        while True:
            pause()
            if self._closing.is_set():
                return
            try:
                work()
                self._troubles.pop(name, None)
            except NightjarError as error:
                if self._troubles.get(name) != str(error):
                    self._troubles[name] = str(error)
                    _log.error("revocation_not_enforced", reason=str(error))
            except Exception as error:
                self._troubles[name] = f"a defect: {type(error).__name__}: {error}; see the log"
                _log.exception("gate_failed")  # a bug must not stop enforcement for good


def end_session(broker: BrokerConfig, tls: ssl.SSLContext, population: Population, device: DeviceId) -> None:
    """Take over a device's session, end it, and clear the retained status, which is by then the device's last will.

    A broker that reloads its revocation list checks it only on new connections. MQTT has no message that disconnects
    another client, but every broker implements session takeover: the client that connected last with a client id owns
    the session (MQTT 3.1.1, 3.1.4).

    Raises:
        UnavailableError: the broker cannot be reached, or does not allow the takeover.
    """
    client = paho.Client(CallbackAPIVersion.VERSION2, device, clean_session=True, protocol=paho.MQTTv311)
    client.username_pw_set(broker.username, broker.password or None)
    client.tls_set_context(tls)
    client.connect_timeout = EVICTION_TIMEOUT_S
    try:
        client.connect(broker.host, broker.port, keepalive=10)
        given_up_s = time.monotonic() + EVICTION_TIMEOUT_S
        cleared: paho.MQTTMessageInfo | None = None
        while not (cleared and cleared.is_published()) and time.monotonic() < given_up_s:
            if client.loop(0.1):
                break
            if client.is_connected() and cleared is None:
                cleared = client.publish(topics.status(population, device), b"", qos=1, retain=True)
        ended = cleared is not None and cleared.is_published()
    except OSError as error:
        msg = f"the broker does not let us end the session of {device}: {error}"
        raise UnavailableError(msg) from error
    finally:
        client.disconnect()
    if not ended:
        msg = f"the broker does not let us end the session of {device}"
        raise UnavailableError(msg)
