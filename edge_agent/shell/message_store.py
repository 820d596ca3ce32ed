"""Puts the store of typed messages in order, and empties it, in a short-lived process.

Both read what was typed, so that the agent, which has the network, leaves it to a process without one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from nightjar.edge_agent.core.faults import Fault, error_of, fault_of
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.emulator.phone import read_messages
from nightjar.edge_agent.session.task import StoredMessages
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.mending import agree, mend
from nightjar.edge_agent.shell.typed_put_away import forget_typed
from nightjar.host.children import python_command
from nightjar.host.confinement import forbid_network
from nightjar.wire.errors import UnavailableError

PERSON = "person"
"""Name of the set of messages of an emulated phone, which is stored once."""
TIMEOUT_S = 300.0
"""A board that has just been switched on is busy, and a large database takes it a while to rewrite."""


class StoreRequest(msgspec.Struct, frozen=True):
    """What is to be done with a database.

    Attributes:
        person: a file of messages that are stored if this was not done before; None for none.
        wipe: delete all typed text and everything derived from it.
    """

    database: str
    caps: Caps
    person: str | None = None
    wipe: bool = False


class StoreAnswer(msgspec.Struct, frozen=True):
    """How many messages were added, and how many are stored; or what went wrong.

    ``mended`` is what was wrong with the database, which goes on without it; empty if nothing.
    """

    added: int = 0
    stored: int = 0
    mended: str = ""
    fault: Fault | None = None


def prepare(stored: StoredMessages, person: Path | None) -> StoreAnswer:
    """Put the database in order and store an emulated person's messages, in another process.

    Raises:
        ConfigError: the database or the person's file cannot be used.
        UnavailableError: the process failed.
    """
    return _in_a_process(_preparation(stored, person))


def prepare_here(stored: StoredMessages, person: Path | None) -> StoreAnswer:
    """Do as :func:`prepare` in this process, for emulated phones that train in it."""
    return answer(_preparation(stored, person))


def wipe(stored: StoredMessages) -> None:
    """Delete all typed text and everything derived from it, in another process.

    Raises:
        UnavailableError: it could not be deleted.
    """
    _in_a_process(StoreRequest(str(stored.database), stored.caps, wipe=True))


def answer(request: StoreRequest) -> StoreAnswer:
    """Do what a request asks for, in this process.

    Raises:
        NightjarError: it could not be done.
    """
    messages = [] if request.person is None else read_messages(Path(request.person))
    path = Path(request.database)
    clock = SystemClock(path.parent)
    # Not for a wipe: the agent that asks for it has the database open.
    mended = "" if request.wipe else _mended(path, request.caps, clock)
    database = Database(path, request.caps, clock)
    try:
        if not request.wipe:
            agree(path)
        if request.wipe:
            database.wipe()
        added = len(messages) if request.person is not None and database.add_once(PERSON, messages) else 0
        return StoreAnswer(added, database.count(), mended)
    finally:
        database.close()


def _mended(path: Path, caps: Caps, clock: SystemClock) -> str:
    """Mend a damaged database; of those that were put away before, forget what is older than messages may be."""
    why = mend(path, clock.trusted_s())
    certain_s = clock.certain_s()
    if certain_s is not None:
        forget_typed(path.parent, certain_s - caps.age_s)
    return why


def _preparation(stored: StoredMessages, person: Path | None) -> StoreRequest:
    return StoreRequest(str(stored.database), stored.caps, None if person is None else str(person))


def _in_a_process(request: StoreRequest) -> StoreAnswer:
    command = python_command("-m", "nightjar.edge_agent.shell.message_store")
    asked = msgspec.msgpack.encode(request)
    try:
        # Standard error is dropped: the text of a traceback may quote what was typed.
        done = subprocess.run(  # noqa: S603 - our own module
            command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True
        )
        found = msgspec.msgpack.decode(done.stdout, type=StoreAnswer)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        msg = f"the store of messages could not be opened by its own process: {type(error).__name__}"
        raise UnavailableError(msg) from error
    if found.fault is not None:
        raise error_of(found.fault)
    return found


def _main() -> None:
    forbid_network()
    try:
        found = answer(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=StoreRequest))
    except Exception as error:  # the agent reports any error
        found = StoreAnswer(fault=fault_of(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    _main()
