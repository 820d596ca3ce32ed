"""The suggester's process: ``python -m nightjar.edge_agent.suggester CONTROL PAGE LOCAL LOG_LEVEL``.

Started only by :mod:`nightjar.edge_agent.shell.suggester`, with three sockets: the pair to the agent, and the listeners
of the page and of desktop programs. It gives up the network before it reads anything, and dies with the agent.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import nightjar.host.one_thread  # noqa: F401 - before anything imports numpy
from nightjar.host.children import die_with_parent
from nightjar.host.confinement import forbid_network

WIPE_S = 60.0
"""How long the page waits for a wipe: longer than the agent, whose answer says what is wrong."""
CHECKPOINT_S = 600.0
"""The agent leaves checkpoints to this process, because what was typed passes through the memory of who makes them."""


def main() -> None:
    """Serve what the command line names."""
    forbid_network()
    control, page, local = (socket.socket(fileno=int(number)) for number in sys.argv[1:4])

    from nightjar.host.logs import configure_logs

    configure_logs(sys.argv[4])
    serve(control, page, local)


def serve(control: socket.socket, page: socket.socket, local: socket.socket) -> NoReturn:
    """Serve until the agent ends, in a process that has nothing else to do. Logs are configured."""
    confined = forbid_network()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold typed text
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the agent, which ends this process
    die_with_parent(os.getppid())  # at once: the next agent needs the page's port

    import structlog

    log = structlog.get_logger()
    if not confined:
        log.warning("suggester_not_confined", why="this system has no seccomp filters")
    try:
        _serve(control, page, local)
    except Exception as error:
        log.error("suggester_failed", error=type(error).__name__)  # noqa: TRY400 - its text may quote what was typed
        os._exit(1)
    os._exit(0)  # clients may be connected


def _serve(control: socket.socket, page: socket.socket, local: socket.socket) -> None:
    from nightjar.edge_agent.core.faults import error_of, fault_of
    from nightjar.edge_agent.keyboard.server import Serving
    from nightjar.edge_agent.suggester import control as messages
    from nightjar.edge_agent.suggester.local_socket import LocalServer
    from nightjar.edge_agent.suggester.service import KeyboardService
    from nightjar.wire.errors import UnavailableError

    answers: queue.SimpleQueue[messages.WipeDone] = queue.SimpleQueue()
    wiping, sending = threading.Lock(), threading.Lock()

    def tell(message: messages.ToAgent) -> None:
        with sending:
            messages.send(control, message)

    def ask_to_wipe() -> None:
        with wiping:
            while not answers.empty():
                answers.get()  # of a wipe that took too long
            tell(messages.WipeAsked())
            try:
                fault = answers.get(timeout=WIPE_S).fault
            except queue.Empty as error:
                msg = "the agent does not answer; nothing may have been deleted yet"
                raise UnavailableError(msg) from error
        if fault is not None:
            raise error_of(fault)

    incoming = messages.from_agent(control)
    begin = next(incoming)
    if not isinstance(begin, messages.Begin):
        sys.exit("the agent did not say what to serve")
    service = KeyboardService(begin, ask_to_wipe)
    Serving(service.page(), page)
    LocalServer(local, service.requests().answer)
    threading.Thread(target=_make_checkpoints, args=(service.database.make_checkpoint,), daemon=True).start()
    for message in incoming:
        match message:
            case messages.UseModel(model):
                fault = None
                try:
                    service.use(model)
                except Exception as error:  # the keyboard keeps the model that it has
                    fault = fault_of(error)
                tell(messages.ModelUsed(model.sha256, fault))
            case messages.Forget():
                service.forget()
            case messages.WipeDone():
                answers.put(message)
            case messages.Begin():
                pass  # only the first message is one


def _make_checkpoints(make_checkpoint: Callable[[], None]) -> None:
    while True:
        time.sleep(CHECKPOINT_S)
        make_checkpoint()


if __name__ == "__main__":
    main()
