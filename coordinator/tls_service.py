"""The TLS part of the service (``transport = "tls"``): authority, HTTPS, broker certificates, and revocation."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import structlog
from flask import Flask

from nightjar.coordinator.config import BrokerConfig, CoordinatorConfig
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.enrolment.revocation import RevocationEnforcer, end_session
from nightjar.coordinator.ports import Clock
from nightjar.coordinator.ports import Signer as OrderSigner
from nightjar.coordinator.rate_limits import CONNECTION_COST, DeviceRateLimits
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tls.contexts import AUTHORITIES, FOLDER, client_context
from nightjar.coordinator.tls.files import Changes, refresh, signer_of
from nightjar.coordinator.tls.front import TlsFront, behind_front
from nightjar.coordinator.web.server import CONNECTIONS, serving
from nightjar.wire.identifiers import DeviceId, Population

RELOAD_TIMEOUT_S = 20.0
EVICTIONS_AT_ONCE = 8
LOOPBACK = "127.0.0.1"

_log = structlog.get_logger("coordinator")


class TlsService:
    """Creates and connects the parts that TLS needs; ``distrust`` says why the clock is not trusted, empty if it is.

    Raises:
        UnavailableError: the authority or the disk does not work.
        ConfigError: the file of the authority's key is readable by others.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        database: Database,
        clock: Clock,
        signer: OrderSigner,
        limits: DeviceRateLimits,
        distrust: Callable[[], str] = str,
    ) -> None:
        self._config, self._clock, self._limits, self._distrust = config, clock, limits, distrust
        self._signer = signer_of(config)
        self._register = Register(database)
        # In its own thread: a command that hangs must not delay the next revocation.
        self._reload_broker: Callable[[], None] = lambda: threading.Thread(
            target=self._run_reload_command, name="broker reload", daemon=True
        ).start()
        self._front: TlsFront | None = None
        self._gate: RevocationEnforcer | None = None
        self._reloading, self._not_reloaded = threading.Lock(), ""
        self.folder = config.data_dir / FOLDER
        """Folder of the certificates that the servers read."""
        now_s = clock.now_s()
        try:
            refresh(config, self._signer, self._register.shut_out(now_s), now_s, distrust())
        except BaseException:
            self._signer.close()
            raise
        self.context = client_context(config)
        """TLS context for connecting to the broker."""
        self.issuer = CertificateIssuer(
            config, self._register, self._signer, clock, signer.public, signer.recovery, distrust
        )
        """Issues certificates to devices."""

    @property
    def troubles(self) -> list[str]:
        """Reasons why a revocation may not be in force everywhere."""
        gate = [] if self._gate is None else self._gate.troubles
        return gate + ([self._not_reloaded] if self._not_reloaded else [])

    def look_now(self) -> None:
        """Refuse at once who has to be refused now; returns at once."""
        if self._gate is not None:
            self._gate.look_now()

    def close(self) -> None:
        """End the authority process."""
        self._signer.close()

    @contextlib.contextmanager
    def enforcing_revocations(self, broker: BrokerConfig, reload_broker: Callable[[], None] | None) -> Iterator[None]:
        """Enforce the register's revocations as long as the block lasts; only our own broker can be made to reload."""
        if reload_broker is not None:
            self._reload_broker = reload_broker
        population = Population(self._config.population)

        def evict(devices: Collection[DeviceId], serials: Collection[str]) -> None:
            if self._front is not None:
                self._front.drop(serials)
            with ThreadPoolExecutor(EVICTIONS_AT_ONCE) as pool:
                list(pool.map(lambda device: end_session(broker, self.context, population, device), devices))

        gate = RevocationEnforcer(
            self._config,
            self._register,
            self._signer,
            self._clock,
            self._reload,
            evict,
            self._distrust,
            self._limits.cut_off,
        )
        self._gate = gate
        with contextlib.closing(gate):
            gate.start()
            yield

    @contextlib.contextmanager
    def serving(self, app: Flask, listener: socket.socket | None) -> Iterator[None]:
        """Serve HTTPS as long as the block lasts; see :func:`nightjar.coordinator.web.server.serving`."""
        config = self._config
        with socket.create_server((LOOPBACK, 0), backlog=CONNECTIONS) as behind, contextlib.ExitStack() as stack:
            port: int = behind.getsockname()[1]
            front = TlsFront(
                config.host,
                config.port,
                self.folder,
                port,
                CONNECTIONS,
                listener,
                config.trusted_proxy,
                lambda device: self._limits.admits(device, CONNECTION_COST),
            )
            stack.callback(front.close)
            stack.enter_context(serving(behind_front(app, front.peer), config.host, port, behind))
            stack.callback(front.stop_listening)  # runs first: new connections are for the next process
            if config.page_port:
                pages = serving(app, config.page_host, config.page_port, trusted_proxy=config.trusted_proxy)
                stack.enter_context(pages)
            self._front = front
            yield

    def _reload(self, changes: Changes) -> None:
        if changes:
            _log.info("certificates_changed", server=changes.server, trust=changes.authorities, revoked=changes.revoked)
        if changes.authorities:
            self.context.load_verify_locations(cafile=str(self.folder / AUTHORITIES))
        if self._front is not None and (changes.server or changes.authorities):
            self._front.reload()
        self._reload_broker()

    def _run_reload_command(self) -> None:
        command = self._config.broker.reload_command
        if not command:
            return
        with self._reloading:
            try:
                subprocess.run(command, check=True, timeout=RELOAD_TIMEOUT_S, stdin=subprocess.DEVNULL)  # noqa: S603 - the configuration's
                self._not_reloaded = ""
            except (OSError, subprocess.SubprocessError) as error:
                self._not_reloaded = f"the broker does not read again whom to refuse: {error}"
                _log.error("broker_not_reloaded", command=command, reason=str(error))
