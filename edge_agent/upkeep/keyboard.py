"""Keeps the keyboard on the announced model: decides what to fetch and when, and shows it once it has arrived.

Called by the driver, on its thread. A device without a keyboard fetches models only when it is selected. A session may
train a version that is not announced: the keyboard does not get it before the coordinator, on what devices measured,
announces it. If anything goes wrong with a new model, the keyboard keeps the one that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from nightjar.edge_agent.core.eligibility import Answer, Condition, Readings, is_met
from nightjar.edge_agent.inbox import StartJob, failure
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Artifacts, Ports, Trust
from nightjar.edge_agent.session.session import fetched
from nightjar.wire.backoff import BackOff
from nightjar.wire.errors import NightjarError
from nightjar.wire.identifiers import DeviceId, Sha256
from nightjar.wire.messages import Announcement
from nightjar.wire.shares import is_canary

FETCH_AGAIN = BackOff(first_s=30.0, most_s=1800.0)
"""Back-off for the keyboard's model: not urgent, because the keyboard has an older one."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that the coordinator wants this device to have, and the announcement as received."""

    manifest: Sha256
    payload: bytes


def offered(message: Announcement, payload: bytes, device: DeviceId) -> Offer:
    """The model that an announcement offers to a device: the canary version if the device is in the canary group."""
    canary = message.canary
    if canary is not None and is_canary(device, canary.manifest, canary.share):
        return Offer(canary.manifest, payload)
    return Offer(message.manifest, payload)


def fetch(artifacts: Artifacts, trust: Trust, offer: Offer, should_stop: Callable[[], bool]) -> Model:
    """Download an offered model for the keyboard, if the coordinator signed the offer.

    Raises:
        RemoteProtocolError: the announcement is not trusted, the data does not match its hash or manifest, or the model
            needs a newer agent; or its program must not be run here.
        UnavailableError: the signature cannot be checked or the model cannot be fetched now.
    """
    trust.check("announce", offer.payload)
    return artifacts.adopt(fetched(artifacts, trust, offer.manifest, should_stop))


class KeyboardUpkeep:
    """Tracks which model the keyboard has, and which it should have.

    Attributes:
        job: number of the fetch job in progress; 0 if there is none.
    """

    def __init__(self, ports: Ports, start: StartJob) -> None:
        self._ports, self._show, self._start = ports, ports.show_model, start
        self._wanted: Offer | None = None
        self._shown: Sha256 | None = None
        self._tries = 0
        self._not_before_s = 0.0
        self.job = 0

    def announced(self, offer: Offer) -> None:
        """Note that a model was announced, perhaps again."""
        if offer != self._wanted:
            self._tries, self._not_before_s = 0, 0.0
        self._wanted = offer

    def fetch_if_due(self, readings: Readings, *, working: bool) -> None:
        """Fetch the announced model if the network is unmetered and there is room; not during a fetch or its back-off.

        ``working``: a session needs the worker.
        """
        ports, wanted = self._ports, self._wanted
        room = readings.get(Condition.DISK_FREE)
        if working or not is_met(readings, Condition.UNMETERED) or (room is not None and room.value is Answer.NO):
            return
        if self._show is None or self.job or wanted is None or ports.clock.monotonic_s() < self._not_before_s:
            return
        if wanted.manifest != self._shown:
            self.job = self._start(lambda should_stop: fetch(ports.artifacts, ports.trust, wanted, should_stop))

    def fetched(self, outcome: object) -> None:
        """Show the fetched model; if the fetch failed, back off."""
        self.job = 0
        if isinstance(outcome, Model):
            self.arrived(outcome)
            return
        self._tries += 1
        wait_s = FETCH_AGAIN.delay_s(self._tries, self._ports.jitter())
        self._not_before_s = self._ports.clock.monotonic_s() + wait_s
        log.warning("model_not_fetched", error=failure(outcome), again_in_s=round(wait_s))

    def arrived(self, model: Model) -> None:
        """Show a model that is complete on the device."""
        if model.sha256 != self._shown:
            self._show_now(model)

    def prepared(self, model: Model) -> None:
        """Show the model of a session if the keyboard has none at all."""
        if self._shown is None:
            self.arrived(model)

    def renewed(self, model: Model) -> None:
        """Show the keyboard's model again because its personal weights have changed; ignore any other model."""
        if model.sha256 == self._shown:
            self._show_now(model)

    def _show_now(self, model: Model) -> None:
        if self._show is None:
            return
        self._shown = model.sha256
        try:
            self._show(model)
        except NightjarError as error:
            log.warning("keyboard_model_refused", model_version=model.manifest.version, error=str(error))
        else:
            log.info("keyboard_model", model_version=model.manifest.version)
