"""The composition root: builds an agent from its configuration, runs it, and tears it down.

The only module that knows every adapter. Every likely mistake in the setup (folder, database, messages, port, runtime)
is detected before the first connection is made, and raises :class:`ConfigError`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import structlog

from nightjar.edge_agent.config import KEYBOARD_HOST, AgentConfig, EmulatorSettings
from nightjar.edge_agent.core.lifecycle import Working
from nightjar.edge_agent.core.owners import ProgramOwner, owner_in
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.enrolment.identity import enrolled_tls, held_identity, load_credential, mend_identity
from nightjar.edge_agent.enrolment.renewal import Renewal
from nightjar.edge_agent.enrolment.standing import StandingWatch
from nightjar.edge_agent.inbox import AccessAnswered, Item, LinkDown, LinkUp, StopAsked, WipeAsked
from nightjar.edge_agent.kept_settings import AgentSettings
from nightjar.edge_agent.keyboard.key import note_port
from nightjar.edge_agent.link.connection import FACT as CONNECTION
from nightjar.edge_agent.link.trust import KnownKey, SignatureCheck
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Pace, Ports, SessionDependencies
from nightjar.edge_agent.session.task import StoredMessages, Trainer
from nightjar.edge_agent.shell import message_store
from nightjar.edge_agent.shell.card_use import CardUse, with_journal
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.damage import restart_if_damaged
from nightjar.edge_agent.shell.damaged_files import put_damaged_away, put_lock_away
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.device import DeviceProfile, assembled_device, typing_activity
from nightjar.edge_agent.shell.examples import CountedMessages, DeviceExamples
from nightjar.edge_agent.shell.folder import ARTIFACTS, DATABASE, own_folder
from nightjar.edge_agent.shell.http import Downloader
from nightjar.edge_agent.shell.memory import return_free_memory
from nightjar.edge_agent.shell.message_store import StoreAnswer
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.mqtt import BrokerAddress, MqttTransport
from nightjar.edge_agent.shell.no_transport import WHY, NoTransport
from nightjar.edge_agent.shell.owned_programs import OwnedPrograms, ReadDocument
from nightjar.edge_agent.shell.permissions import take_back
from nightjar.edge_agent.shell.probes import Probe
from nightjar.edge_agent.shell.probes.idle import TypingActivity
from nightjar.edge_agent.shell.releases import PRESENT, VARIABLE, Looking, ReleaseProcess, rollback_reason
from nightjar.edge_agent.shell.signatures import checked_in_a_process
from nightjar.edge_agent.shell.suggester import SuggesterProcess, local_listener, page_listener
from nightjar.edge_agent.shell.sum_process import SumProcess
from nightjar.edge_agent.shell.tflite import runtime_name
from nightjar.edge_agent.shell.trainer import TrainerProcess
from nightjar.edge_agent.shell.worker import JobThread, ThreadWorker
from nightjar.edge_agent.suggester.__main__ import serve
from nightjar.edge_agent.suggester.control import Begin
from nightjar.host.put_away import FOLDER as PUT_AWAY
from nightjar.host.put_away import in_short, notes
from nightjar.host.systemd import ServiceManager, stored_listener
from nightjar.wire import messages, topics
from nightjar.wire.errors import ConfigError, NightjarError, UnavailableError, rewording
from nightjar.wire.limits import HOUSEHOLD_WARNING
from nightjar.wire.messages import Status

STORED_BYTES = 4_000_000
"""Most text that is stored: 400 bytes, far above the mean, for each of the default maximum of messages."""
LAST_BATCH_S = 5.0
"""How long a stopping process waits for the batch in progress."""
WIPE_SIGNAL = signal.SIGUSR1
"""Signal by which ``nightjar-agent wipe`` asks a running agent to delete everything."""
WIPE_S = 30.0
"""How long the keyboard page waits for a wipe: longer than any single step of the driver."""

log = structlog.get_logger()


def run_agent(settings: AgentSettings, log_level: str = "info") -> None:
    """Run an agent until SIGTERM or SIGINT; ``log_level`` is the least that its suggester logs.

    Raises:
        ConfigError: the configuration cannot be used on this machine.
    """
    config, runtime = settings.config, runtime_name()
    with contextlib.ExitStack() as stack:
        take_folder(stack, config.data_dir, settings.put_damaged_away)
        clock, typing = SystemClock(config.data_dir, keeps=True), typing_activity(config)
        prepare_store(config, message_store.prepare)
        inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        # An emulated phone without a page has a keyboard all the same: its person types there, and it is measured.
        show_model: Callable[[Model], None] | None = None if config.emulator is None else _show_nobody
        suggester: SuggesterProcess | None = None

        def wipe() -> None:
            # The database counts completed wipes, so it comes last.
            artifacts.forget_personal()
            message_store.wipe(stored_messages(config))
            if suggester is not None:
                suggester.forget()

        if config.keyboard.enabled:
            # Forked: before the first thread and the first connection.
            suggester = started_suggester(stack, config, inbox, wipe, log_level)
            show_model = suggester.use
        database = Database(config.data_dir / DATABASE, caps(config), clock, tidy=False)
        stack.callback(database.close)
        if config.keyboard.enabled:
            database.leave_checkpoints()
        card = CardUse(
            config.data_dir,
            config.limits.written_mb_per_day,
            clock.monotonic_s,
            clock.trusted_s,
            with_journal(lambda: database.transactions),
        )
        stack.callback(card.keep)
        device = device_of(config, database, clock, typing, [card.probe(lambda: isinstance(driver.state, Working))])
        examples = DeviceExamples(CountedMessages(database.count), config.store.examples)
        identity = identity_of(config, runtime)
        if config.limits.household:
            log.warning("household", means=HOUSEHOLD_WARNING)
        if config.emulator is not None:
            log.info("emulated_phone", device=config.device, speed=config.emulator.speed)

        tls = enrolled_tls(config.data_dir)
        if tls is not None:
            stack.callback(Renewal(config.data_dir, lambda: reload_tls(tls, config)).close)
        connects = config.connects
        transport: MqttTransport | NoTransport = NoTransport(inbox.put)
        if connects:
            transport = transport_of(config, watched(stack, config, tls, inbox.put), tls)
        thread = JobThread(tidy=return_free_memory)
        stack.callback(thread.close, LAST_BATCH_S)
        service_manager = ServiceManager(os.environ)
        # Else systemd's programs, asked for conditions, tell it of their failures, which it logs every few seconds.
        os.environ.pop("NOTIFY_SOCKET", None)
        has_keyboard = config.keyboard.enabled or config.emulator is not None
        downloader = Downloader(config.coordinator_url, tls=tls)
        programs = programs_of(config, os.environ, downloader.read)
        artifacts = ModelFiles(config.data_dir / ARTIFACTS, downloader, programs, keyboard=has_keyboard)
        hold_given_model(config, artifacts)

        def turned() -> None:
            clock.trusted_s()  # makes it durable when that is due
            restart_if_damaged(config.data_dir)
            card.count()
            service_manager.turned(_status(connected=transport.connected) if connects else WHY)

        driver = Driver(
            identity,
            pace_of(config),
            Ports(
                clock=clock,
                jitter=random.random,
                random_for=random_for(config.emulator),
                conditions=device.conditions,
                transport=transport,
                artifacts=artifacts,
                examples=examples,
                journal=database,
                worker=ThreadWorker(inbox.put, thread),
                desk=SessionDependencies(
                    examples,
                    trainer_for(config),
                    config.keyboard.enabled and config.keyboard.personalise,
                    config.conditions.training_memory_bytes,
                    artifacts.announced if has_keyboard else lambda: None,
                ),
                trust=trust_of(config, database, clock),
                sums=SumProcess(config.data_dir),
                limits=config.limits,
                show_model=show_model,
                releases=releases_of(config, os.environ),
                remember_connection=lambda state: database.remember(CONNECTION, state),
                turned=turned,
                card_worn=card.worn,
                notice=lambda: "; ".join(
                    filter(None, (transport.twin, card.spent(working=False), in_short(config.data_dir)))
                ),
            ),
            inbox,
        )
        # A signal handler may safely put items into a SimpleQueue, even while its reader waits on it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: inbox.put(StopAsked()))
        signal.signal(WIPE_SIGNAL, lambda _number, _frame: inbox.put(WipeAsked(wipe, Future())))
        settings.keep()
        transport.start()
        driver.run()
        service_manager.stopping()
        disconnect(config, transport)


def take_folder(
    stack: contextlib.ExitStack, data_dir: Path, further: Callable[[float | None], None] = lambda _wall_s: None
) -> None:
    """Lock the agent's folder, and put away what is damaged in it, and what ``further`` does with the trusted time.

    Raises:
        ConfigError: the folder cannot be used.
    """
    with rewording(ConfigError, f"data_dir: what is damaged in {data_dir} cannot be put away"):
        put_lock_away(data_dir)
        stack.enter_context(own_folder(data_dir))
        before = notes(data_dir)
        wall_s = SystemClock(data_dir).trusted_s()
        take_back(data_dir, wall_s)
        put_damaged_away(data_dir, wall_s)
        further(wall_s)
        mend_identity(data_dir)
    for note in notes(data_dir)[len(before) :]:
        log.error("damaged_file", note=note)


def _status(*, connected: bool) -> str:
    """The unit's status text, which decides whether a new release of the agent is healthy."""
    return "connected to the broker" if connected else "not connected to the broker"


def identity_of(config: AgentConfig, runtime: str) -> AgentIdentity:
    """What this agent tells others about itself."""
    return AgentIdentity(
        population=config.population,
        device=config.device,
        runtime=runtime,
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        emulated=config.emulator is not None,
        rolled_back=rollback_reason(os.environ),
    )


def releases_of(config: AgentConfig, environment: Mapping[str, str]) -> ReleaseProcess | None:
    """What looks for releases; None if nothing could install one, or the present release trusts no root."""
    release, record = environment.get(PRESENT, ""), environment.get(VARIABLE, "")
    if not (release and record and (Path(release) / "root.json").is_file()):
        return None
    looking = Looking(
        device=config.device,
        coordinator_url=config.coordinator_url,
        data_dir=str(config.data_dir),
        release=release,
        record=record,
    )
    return ReleaseProcess(looking, random.random, None if config.emulator is None else config.emulator.speed)


def programs_of(
    config: AgentConfig,
    environment: Mapping[str, str],
    read: ReadDocument,
    is_valid: SignatureCheck = checked_in_a_process,
) -> OwnedPrograms:
    """What decides which programs this device computes; its owner is known by his key and by the present release."""
    owners = [ProgramOwner(frozenset({config.owner_key}))] if config.owner_key else []
    release = environment.get(PRESENT, "")
    if release:
        with contextlib.suppress(OSError):
            named = owner_in((Path(release) / "root.json").read_bytes())
            owners += [] if named is None else [named]
    return OwnedPrograms(config.data_dir / ARTIFACTS, read, owners, is_valid)


def pace_of(config: AgentConfig) -> Pace:
    """Intervals, limits and policy of the driver."""
    return Pace(
        config.conditions.poll_s,
        config.conditions.hysteresis_s,
        policy=config.conditions.policy,
    )


def trust_of(
    config: AgentConfig, database: Database, clock: SystemClock, is_valid: SignatureCheck = checked_in_a_process
) -> KnownKey:
    """The agent's trust store, with the keys from its configuration and its enrolment."""
    identity = held_identity(config.data_dir)
    recovery = "" if identity is None else identity.recovery_key
    return KnownKey(
        config.population,
        config.device,
        database,
        config.coordinator_key,
        recovery,
        is_valid=is_valid,
        now_s=clock.trusted_s,
        compare=clock.compare,
    )


def reload_tls(context: ssl.SSLContext, config: AgentConfig) -> None:
    """Use the newest certificate, and trust the authorities that came with it, from the next connection on."""
    identity = held_identity(config.data_dir)
    if identity is not None:
        context.load_verify_locations(cadata="".join(identity.authorities))
        load_credential(context, config.data_dir)


def watched(
    stack: contextlib.ExitStack, config: AgentConfig, tls: ssl.SSLContext | None, post: Callable[[Item], None]
) -> Callable[[Item], None]:
    """Watch the standing of an enrolled device; returns what the transport posts to."""
    if tls is None:
        return post
    watch = StandingWatch(
        config.data_dir,
        lambda: reload_tls(tls, config),
        lambda refusal: post(AccessAnswered(refusal)),
        SystemClock(config.data_dir).trusted_s,
    )
    stack.callback(watch.close)

    def post_and_note(item: Item) -> None:
        if isinstance(item, LinkUp | LinkDown):
            watch.connected(isinstance(item, LinkUp))
        post(item)

    return post_and_note


def transport_of(config: AgentConfig, post: Callable[[Item], None], tls: ssl.SSLContext | None = None) -> MqttTransport:
    """The connection to the broker, with a last will that reports the lost connection; not started yet."""
    gone = messages.encode(Status(online=False, reason="connection lost", emulated=config.emulator is not None))
    return MqttTransport(
        broker_of(config, tls),
        client_id=f"nightjar-agent-{config.population}-{config.device}",
        filters=topics.device_filters(config.population, config.device),
        will=(topics.status(config.population, config.device), gone),
        post=post,
    )


def broker_of(config: AgentConfig, tls: ssl.SSLContext | None) -> BrokerAddress:
    """How to reach the broker; ``tls`` is the context of an enrolled device."""
    broker = config.broker
    return BrokerAddress(
        broker.host,
        broker.port,
        broker.username or config.device,
        broker.password,
        ssl.create_default_context() if tls is None and broker.tls else tls,
        broker.websocket,
    )


def hold_given_model(config: AgentConfig, artifacts: ModelFiles) -> None:
    """Give the keyboard the model that the settings name: until the coordinator's arrives, or always if none can.

    Raises:
        ConfigError: it cannot be read or stored.
    """
    folder = config.keyboard.model
    if folder is None or (config.connects and artifacts.announced() is not None):
        return
    try:
        artifacts.hold(folder)
    except (OSError, NightjarError) as error:
        msg = f"keyboard.model: expected the folder of an exported model, got: {error}"
        raise ConfigError(msg) from error


def disconnect(config: AgentConfig, transport: MqttTransport | NoTransport) -> None:
    """Publish that the agent was stopped, and disconnect."""
    emulated = config.emulator is not None
    farewell = Status(online=False, state="stopped", reason="the agent was stopped", emulated=emulated)
    transport.close(topics.status(config.population, config.device), messages.encode(farewell))


def caps(config: AgentConfig) -> Caps:
    """Limits on the typed text that is stored."""
    store = config.store
    return Caps(
        store.maximum_messages,
        STORED_BYTES,
        store.maximum_age_days * 86400,
        forbidden=store.forbidden_words,
    )


def stored_messages(config: AgentConfig) -> StoredMessages:
    """Where this device's messages are, for the processes that read them."""
    return StoredMessages(config.data_dir / DATABASE, caps(config))


def trainer_for(config: AgentConfig) -> Trainer:
    """The trainer, which reads the messages itself, with its limit of memory."""
    return TrainerProcess(
        config.conditions.training_memory_bytes,
        # Emulated phones share a machine with each other and with the person who watches them.
        idle_priority=config.emulator is None,
        messages=stored_messages(config),
        report_peak=lambda peak_bytes: log.info("trainer_ended", peak_mb=peak_bytes >> 20),
    )


def prepare_store(config: AgentConfig, prepare: Callable[[StoredMessages, Path | None], StoreAnswer]) -> None:
    """Put the store of messages in order; for an emulated phone, load its person's messages once."""
    person = None if config.emulator is None else config.emulator.messages
    found = prepare(stored_messages(config), person)
    if found.mended:
        log.error("database_mended", why=found.mended, kept_in=str(config.data_dir / PUT_AWAY))
    if person is not None:
        log.info("messages_loaded", device=config.device, messages=found.added, stored=found.stored)


def device_of(
    config: AgentConfig,
    database: Database,
    clock: SystemClock,
    typing: TypingActivity,
    further: Sequence[Probe] = (),
) -> DeviceProfile:
    """The device's profile, with further probes; an emulated phone resumes its day."""
    started = 0.0 if config.emulator is None else emulation_started_s(database, clock)
    return assembled_device(config, clock, typing, database.learning_paused, started, further)


def emulation_started_s(database: Database, clock: SystemClock) -> float:
    """When this emulated phone was first started, on the wall clock."""
    started = database.fact("emulation_started_s")
    if started is None:
        started = repr(clock.wall_s())
        database.remember("emulation_started_s", started)
    return float(started)


def random_for(emulator: EmulatorSettings | None) -> Callable[[int, int], np.random.Generator]:
    """Random generators for sessions: reproducible from the seed on an emulated phone, never on a real device."""
    if emulator is None:
        return lambda _round, _attempt: np.random.default_rng()
    return lambda number, attempt: np.random.default_rng([emulator.seed, number, attempt])


PAGE_SOCKET = "keyboard"
"""The name of the page's socket with systemd, which keeps its port from other users while the agent restarts."""


def started_suggester(
    stack: contextlib.ExitStack,
    config: AgentConfig,
    inbox: queue.SimpleQueue[Item],
    wipe: Callable[[], None],
    log_level: str,
) -> SuggesterProcess:
    """The suggester of a device with a keyboard, started, and ended with the stack.

    Raises:
        ConfigError: the keyboard's port is in use, or its socket cannot be made.
    """

    def ask_to_wipe() -> None:
        asked = WipeAsked(wipe, Future())
        inbox.put(asked)
        try:
            asked.done.result(WIPE_S)
        except TimeoutError as error:
            msg = "the agent is busy and has not deleted anything yet; it does as soon as it can"
            raise UnavailableError(msg) from error

    page = stored_listener(os.environ, PAGE_SOCKET, KEYBOARD_HOST, config.keyboard.port)
    if page is None:
        page = page_listener(config.keyboard.port)
        ServiceManager(os.environ).store(page, PAGE_SOCKET)
    stack.callback(page.close)
    local = stack.enter_context(local_listener(config.data_dir))
    settings = Begin(config.device, config.emulator is not None, config.data_dir, caps(config))
    suggester = SuggesterProcess(
        settings, page, local, ask_to_wipe, serve=serve, log_level=log_level, jitter=random.random
    )
    suggester.start()
    stack.callback(suggester.close)
    note_port(config.data_dir, page.getsockname()[1])
    # The URL in the log does not contain the key.
    url = f"http://{KEYBOARD_HOST}:{page.getsockname()[1]}/"
    log.info("keyboard", device=config.device, url=url, opened_by="the address of nightjar-agent status")
    return suggester


def _show_nobody(_model: Model) -> None:
    """Nothing to do: nobody looks at the keyboard of an emulated phone without a page."""
