"""Keeps the keyboard on the announced model: what to fetch and when, and what to do with it once it is there.

Driven by the driver, on its thread. A device without a keyboard fetches models only when it is selected. Whatever goes
wrong with a new model, the keyboard keeps the one that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from edge_agent.ports import Artifacts, Model, Trust
from wire.backoff import BackOff
from wire.canary import is_canary
from wire.errors import NightjarError
from wire.identifiers import DeviceId, Sha256
from wire.messages import Announcement

FETCH_AGAIN = BackOff(first_s=30.0, most_s=1800.0)
"""Nobody waits for a newer model but the person, who has an older one."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that the coordinator wants this device to have.

    Attributes:
        manifest: which.
        payload: the announcement, as it came.
    """

    manifest: Sha256
    payload: bytes


def offered(message: Announcement, payload: bytes, device: DeviceId) -> Offer:
    """What an announcement offers to a device: the version on trial, if it is among those that try it."""
    canary = message.canary
    if canary is not None and is_canary(device, canary.manifest, canary.share):
        return Offer(canary.manifest, payload)
    return Offer(message.manifest, payload)


def fetch(artifacts: Artifacts, trust: Trust, offer: Offer, should_stop: Callable[[], bool]) -> Model:
    """Bring an offered model onto the device, if the coordinator signed it.

    Raises:
        RemoteProtocolError: as ``Trust.check`` and ``Artifacts.fetch``.
        UnavailableError: as ``Artifacts.fetch``.
    """
    trust.check("announce", offer.payload)
    return artifacts.fetch(offer.manifest, should_stop)


class KeyboardUpkeep:
    """Which model the keyboard has, and which it should have.

    Args:
        show: gives the keyboard a model; None if there is no keyboard.

    Attributes:
        job: number of the job that fetches, 0 if none does.
    """

    def __init__(self, show: Callable[[Model], None] | None) -> None:
        self._show = show
        self._wanted: Offer | None = None
        self._shown: Sha256 | None = None
        self._tries = 0
        self._not_before_s = 0.0
        self.job = 0

    def announced(self, offer: Offer) -> None:
        """A model was announced, perhaps again."""
        if offer != self._wanted:
            self._tries, self._not_before_s = 0, 0.0
        self._wanted = offer

    def due(self, now_s: float) -> Offer | None:
        """The model to fetch now, if the network is free: none while one is being fetched or was tried just now."""
        if self._show is None or self.job or self._wanted is None or now_s < self._not_before_s:
            return None
        return None if self._wanted.manifest == self._shown else self._wanted

    def failed(self, reason: str, now_s: float, jitter: float) -> None:
        """The model could not be fetched."""
        self.job = 0
        self._tries += 1
        wait_s = FETCH_AGAIN.delay_s(self._tries, jitter)
        self._not_before_s = now_s + wait_s
        log.warning("model_not_fetched", error=reason, again_in_s=round(wait_s))

    def arrived(self, model: Model) -> None:
        """A model is whole on the device, for whichever reason it was fetched."""
        if self._show is None or model.sha256 == self._shown:
            return
        self.renewed(model)

    def renewed(self, model: Model) -> None:
        """This device found out on its own what of a model serves its person best; or that has been deleted."""
        if self._show is None:
            return
        self._shown = model.sha256
        try:
            self._show(model)
        except NightjarError as error:
            log.warning("keyboard_model_refused", model_version=model.manifest.version, error=str(error))
        else:
            log.info("keyboard_model", model_version=model.manifest.version)
