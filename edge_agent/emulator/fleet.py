"""Many emulated phones in one process: ``nightjar-agent emulate CONFIG...``.

Each phone is a complete agent with its own driver, database, day, and connection to the broker. The phones share what
one machine cannot afford for each of them. One thread drives all of them. One worker fetches and trains for one phone
after the other, with one program in memory that loads the weights of the current phone. Models are stored on disk once.
Training times are therefore those of a queue, and must not be reported as a phone's.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import queue
import random
import signal
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
from msgspec import structs

from nightjar.edge_agent import assembly
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.enrolment.identity import enrolled_tls
from nightjar.edge_agent.inbox import Item, StopAsked
from nightjar.edge_agent.link.connection import FACT as CONNECTION
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Ports, SessionDependencies
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.session.task import Trainer
from nightjar.edge_agent.shell import message_store
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.device import typing_activity
from nightjar.edge_agent.shell.examples import DeviceExamples
from nightjar.edge_agent.shell.folder import ARTIFACTS, DATABASE, own_folder
from nightjar.edge_agent.shell.http import Downloader
from nightjar.edge_agent.shell.memory import return_free_memory
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.mqtt import MqttTransport
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.sum_process import SumInProcess
from nightjar.edge_agent.shell.tflite import TfliteProgram, load_program, runtime_name
from nightjar.edge_agent.shell.weights import mapped_weights
from nightjar.edge_agent.shell.worker import JobThread, ThreadWorker
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError

LEAVE_AT_ONCE = 16
"""Most farewells that wait for their acknowledgement at the same time."""

log = structlog.get_logger()

Envelope = tuple[int, Item]
"""Number of the phone, and an item for its driver. Number -1 means all phones."""


@dataclass(frozen=True, slots=True)
class EmulatedPhone:
    """One phone of the fleet."""

    config: AgentConfig
    driver: Driver
    transport: MqttTransport


class SharedProgram:
    """Implements :data:`nightjar.edge_agent.ports.LoadProgram` with one program in memory. Not thread-safe."""

    def __init__(self) -> None:
        self._loaded: tuple[Path, Manifest] | None = None
        self._program: TfliteProgram | None = None

    def __call__(self, model: Model) -> TfliteProgram:
        """The program of a model, with its weights restored; the previous user must have finished with it."""
        # Versions of one model differ in what does not matter to the program.
        manifest = structs.replace(model.manifest, version=0, weights=model.manifest.program, transfers=(), bases=None)
        if self._program is None or self._loaded != (model.program, manifest):
            self._program, self._loaded = load_program(model), (model.program, manifest)
        else:
            self._program.restore(mapped_weights(model))
        return self._program


def run_fleet(configs: Sequence[AgentConfig], artifacts: Path) -> None:
    """Run emulated phones until SIGTERM or SIGINT.

    ``artifacts`` is the folder for the shared models; no other process may use it.

    Raises:
        ConfigError: a phone is not emulated or has a keyboard, or a configuration cannot be used on this machine.
    """
    for config in configs:
        if config.emulator is None or config.keyboard.enabled:
            msg = f"{config.device}: expected an [emulator] table and no keyboard; a phone with a keyboard runs alone"
            raise ConfigError(msg)
    runtime = runtime_name()
    inbox: queue.SimpleQueue[Envelope] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        stack.enter_context(own_folder(artifacts))
        thread = JobThread(tidy=return_free_memory)
        stack.callback(thread.close, assembly.LAST_BATCH_S)
        tls = [enrolled_tls(config.data_dir) for config in configs]
        downloader = Downloader(configs[0].coordinator_url, tls=tls[0])
        programs = assembly.programs_of(
            replace(configs[0], data_dir=artifacts), os.environ, downloader.read, signature_valid
        )
        models = ModelFiles(artifacts / ARTIFACTS, downloader, programs)
        train = in_this_process(SharedProgram(), SystemClock().monotonic_s)
        phones = [
            _phone(stack, config, tls[number], runtime, partial(_post, inbox, number), thread, models, train)
            for number, config in enumerate(configs)
        ]
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: inbox.put((-1, StopAsked())))
        log.info("emulated_phones", phones=len(phones), process=os.getpid())
        for phone in phones:
            phone.driver.begin()
            phone.transport.start()
        _drive(phones, inbox)
        with ThreadPoolExecutor(LEAVE_AT_ONCE) as leaving:
            list(leaving.map(lambda phone: assembly.disconnect(phone.config, phone.transport), phones))


def _post(inbox: queue.SimpleQueue[Envelope], phone: int, item: Item) -> None:
    inbox.put((phone, item))


def _phone(
    stack: contextlib.ExitStack,
    config: AgentConfig,
    tls: ssl.SSLContext | None,
    runtime: str,
    post: Callable[[Item], None],
    thread: JobThread,
    models: ModelFiles,
    train: Trainer,
) -> EmulatedPhone:
    stack.enter_context(own_folder(config.data_dir))
    clock = SystemClock(config.data_dir, keeps=True)
    assembly.prepare_store(config, message_store.prepare_here)
    database = Database(config.data_dir / DATABASE, assembly.caps(config), clock)
    stack.callback(database.close)
    examples = DeviceExamples(database, config.store.examples)
    device = assembly.device_of(config, database, clock, typing_activity(config))
    transport = assembly.transport_of(config, assembly.watched(stack, config, tls, post), tls)
    driver = Driver(
        assembly.identity_of(config, runtime),
        assembly.pace_of(config),
        Ports(
            clock=clock,
            jitter=random.random,
            random_for=assembly.random_for(config.emulator),
            conditions=device.conditions,
            transport=transport,
            artifacts=models,
            examples=examples,
            journal=database,
            worker=ThreadWorker(post, thread),
            desk=SessionDependencies(examples, train),
            trust=assembly.trust_of(config, database, clock, signature_valid),
            sums=SumInProcess(config.data_dir),
            limits=config.limits,
            remember_connection=lambda state: database.remember(CONNECTION, state),
        ),
        queue.SimpleQueue(),
    )
    return EmulatedPhone(config, driver, transport)


def _drive(phones: Sequence[EmulatedPhone], inbox: queue.SimpleQueue[Envelope]) -> None:
    """Poll each phone in turn and hand it its items, until all are asked to stop."""
    now_s = SystemClock().monotonic_s
    begun_s = now_s()
    # Spread the polls, so that the phones do not all poll at once.
    polls = [
        (begun_s + phone.config.conditions.poll_s * number / len(phones), number) for number, phone in enumerate(phones)
    ]
    heapq.heapify(polls)
    while True:
        due_s, number = polls[0]
        wait_s = due_s - now_s()
        if wait_s <= 0:
            phones[number].driver.poll()
            # Schedule from now, not from the due time: a machine that is too slow must not fall behind for ever.
            heapq.heapreplace(polls, (now_s() + phones[number].config.conditions.poll_s, number))
            wait_s = 0.0
        try:
            to, item = inbox.get(timeout=wait_s) if wait_s else inbox.get_nowait()
        except queue.Empty:
            continue
        if isinstance(item, StopAsked):
            for phone in phones:
                phone.driver.handle(item)
            return
        phones[to].driver.handle(item)
