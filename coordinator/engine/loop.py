"""The driver in a thread of its own, while the main thread waits for a signal."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nightjar.coordinator.engine.driver import Driver
from nightjar.coordinator.records.inbox import Inbox, ShutdownRequested
from nightjar.host.signals import AWAKE_S, noticed_signals

NOT_RUNNING = "the driver is not running"


class Loop:
    """Runs the driver in its own thread while the main thread waits for its end or a signal.

    ``awake`` is called on the main thread every :data:`nightjar.host.signals.AWAKE_S`.
    """

    def __init__(self, driver: Driver, awake: Callable[[], None]) -> None:
        self._driver, self._awake = driver, awake
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    @property
    def running(self) -> bool:
        """Whether the driver runs."""
        return self._thread.is_alive()

    def run_until_signal(self, ready: Callable[[], None]) -> None:
        """Start the driver; return on a signal while the driver still runs, or raise the error that ended it.

        ``ready`` announces that the service is ready; from then on a signal shuts it down in order.
        """
        with noticed_signals() as over:
            self._over = over
            ready()
            self._thread.start()
            # Wake periodically: a signal that was delivered while the process was frozen may land on another thread,
            # and Python runs handlers on the main thread only.
            while not over.wait(AWAKE_S):
                self._awake()
        self._raise()

    def stop(self) -> None:
        """Let the driver finish its work; the web server, whose requests it answers, has already stopped."""
        self._driver.post(ShutdownRequested())
        if self._thread.ident is not None:
            self._thread.join()
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._driver.run()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()


class RunningDriver:
    """The driver, once this process leads; until then, what adapters post is dropped."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self._loop: Loop | None = None
        self._of_transport: Callable[[], str] = str

    def start(self, driver: Driver, loop: Loop, of_transport: Callable[[], str]) -> None:
        """Take over the driver, its thread, and what tells why the broker cannot be reached (empty if it can)."""
        self.driver, self._loop, self._of_transport = driver, loop, of_transport

    def post(self, event: Inbox) -> None:
        """Hand the driver an event."""
        if self.driver is not None:
            self.driver.post(event)

    def troubles(self) -> list[str]:
        """Why the service does not work as it should, each in words."""
        if self.driver is None or self._loop is None:
            return [NOT_RUNNING]
        troubles = [] if self._loop.running else [NOT_RUNNING]
        if self.driver.trouble:
            troubles.append(f"nothing can be stored: {self.driver.trouble}")
        return [*troubles, *filter(None, [self._of_transport()])]
