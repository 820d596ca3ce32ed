"""``nightjar-agent doctor``: finds problems that could keep this device from taking part, with a remedy for each.

Checks are read-only. Each is a small function that yields its findings; a check that itself fails is a finding too. The
checks do not depend on each other's results (a database, a model), so each can be read on its own.
"""

from __future__ import annotations

import email.utils
import os
import platform
import queue
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import urllib3

from nightjar.edge_agent.assembly import broker_of
from nightjar.edge_agent.commands.conditions import look_once
from nightjar.edge_agent.commands.opened import held_model, runnable
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.core.card_budget import spent, today_mb
from nightjar.edge_agent.core.eligibility import Answer, Condition, Demand
from nightjar.edge_agent.core.sandbox import lacking, open_without_systemd, unit_of, wanted
from nightjar.edge_agent.enrolment.identity import enrolled_tls, held_identity
from nightjar.edge_agent.shell.card_use import read_budget
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.folder import DATABASE, running_agent
from nightjar.edge_agent.shell.keyboard_model import load_keyboard_model
from nightjar.edge_agent.shell.mqtt import client_of
from nightjar.edge_agent.shell.no_transport import WHY
from nightjar.edge_agent.shell.probes.command import run
from nightjar.edge_agent.shell.probes.resources import free_bytes
from nightjar.edge_agent.shell.tflite import runtime_name
from nightjar.host.children import python_command
from nightjar.host.put_away import FOLDER as PUT_AWAY
from nightjar.host.put_away import notes
from nightjar.host.sizes import size_text
from nightjar.host.trusted_time import in_utc
from nightjar.wire.enrolment import COORDINATOR_NAME, ROOT
from nightjar.wire.errors import NightjarError, RemoteProtocolError, UnavailableError

REFUSAL_S = 2.0
"""How long to wait for a refusal: a broker refuses at once; if it accepts us, it waits for our message."""
ANSWER_S = 5.0
"""Longest wait for a broker or coordinator."""
MOST_SKEW_S = 300.0
"""A larger clock error breaks TLS certificates, the times of messages and quiet hours."""
SERVICE = "nightjar-agent.service"
SYSTEMD = Path("/run/systemd/system")
"""There where systemd runs the machine, sd_booted(3)."""


class CheckOutcome(Enum):
    """Outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    """Works, but not as well as it could, or not yet."""
    FAILED = "failed"
    """This keeps the device from taking part."""


OK, WARNING, FAILED = CheckOutcome

Finding = tuple[str, CheckOutcome, str, str]
"""What was checked, the outcome, what was found, and what to do about it unless it is OK."""
Findings = Iterator[Finding]


class Check(NamedTuple):
    """A finding in its category, such as storage."""

    category: str
    name: str
    outcome: CheckOutcome
    detail: str
    remedy: str


def examine(config: AgentConfig, settings_notice: str = "") -> Iterator[Check]:
    """Run all checks, in the order in which the agent needs their subjects.

    ``settings_notice`` says why the settings are not those of the file.
    """
    if settings_notice:
        remedy = "mend the file ('nightjar-agent check FILE' lists its faults), and start the agent again"
        yield Check("settings", "file", WARNING, settings_notice, remedy)
    checks: tuple[tuple[str, Callable[[AgentConfig], Findings]], ...] = (
        ("runtime", _runtime),
        ("storage", _storage),
        ("permissions", _permissions),
        ("processes", _processes),
        ("model", _model),
        ("certificate", _certificate),
        ("broker", _broker),
        ("coordinator", _coordinator),
        ("clock", _clock),
        ("conditions", _conditions),
        ("service", _service),
        ("sandbox", _sandbox),
    )
    for category, check in checks:
        try:
            for name, outcome, detail, remedy in check(config):
                yield Check(category, name, outcome, detail, "" if outcome is OK else remedy)
        except NightjarError as error:
            yield Check(category, "check", FAILED, str(error), "see the message")
        except Exception as error:
            detail = f"the check itself failed: {type(error).__name__}: {error}"
            yield Check(category, "check", WARNING, detail, "report this as a defect")


# --- here ---


def _runtime(_config: AgentConfig) -> Findings:
    detail = f"{platform.python_version()} on {platform.machine()}"
    remedy = "install Python 3.11 or newer, and make the environment again"
    yield "python", _ok(sys.version_info >= (3, 11)), detail, remedy
    try:
        yield "tflite", OK, runtime_name(), ""
    except NightjarError as error:
        remedy = "pip install -r requirements/agent.txt (docs/platforms.md has the runtime of each platform)"
        yield "tflite", FAILED, str(error), remedy


def _storage(config: AgentConfig) -> Findings:
    folder = config.data_dir
    if not folder.is_dir():
        above = next(path for path in (folder, *folder.parents) if path.exists())
        if not above.is_dir():
            yield "folder", FAILED, f"{above} is no folder", "set another data_dir"
        elif os.access(above, os.W_OK | os.X_OK):
            yield "folder", WARNING, f"{folder} is not there", "nothing: the agent makes it"
        else:
            remedy = f"make {folder}, owned by the user that runs the agent"
            yield "folder", FAILED, f"{folder} is not there", remedy
        return
    writable = os.access(folder, os.W_OK | os.X_OK)
    remedy = "give it to the user that runs the agent (chown), or set another data_dir"
    yield "folder", _ok(writable), f"{folder} {'can' if writable else 'cannot'} be written", remedy
    free = free_bytes(folder)
    enough = free >= config.conditions.minimum_free_disk_bytes
    remedy = "free some space, or set conditions.minimum_free_disk_bytes"
    yield "space", _ok(enough), f"{size_text(free)} free", remedy
    clock = SystemClock(folder)
    budget, limit_mb = read_budget(folder, clock.trusted_s()), config.limits.written_mb_per_day
    remedy = "wait: rounds and versions are skipped until it is less; or raise limits.written_mb_per_day"
    detail = f"{today_mb(budget):.0f} MB written within a day, of at most {limit_mb:g}"
    yield "card", WARNING if spent(budget, limit_mb, working=False) else OK, detail, remedy
    database = folder / DATABASE
    if database.exists():
        yield _sound(database)
    for note in notes(folder):
        yield (
            "put away",
            WARNING,
            note,
            f"look at {folder / PUT_AWAY}, and at the card; delete it when you have seen it",
        )


def _sound(database: Path) -> Finding:
    try:
        connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=ANSWER_S)
        try:
            ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        result = str(error)
    remedy = "start the agent again: it puts a damaged database away, and goes on with what can be read"
    return "database", _ok(result == "ok"), f"{database.name}: {result}", remedy


def _permissions(config: AgentConfig) -> Findings:
    folder = config.data_dir
    paths = [folder, *sorted(folder.glob(f"{DATABASE}*"))] if folder.is_dir() else []
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        remedy = f"chmod go= '{path}' (the agent does it at its next start)"
        yield path.name, _ok(not mode & 0o077), f"mode {mode:04o}", remedy


def _processes(_config: AgentConfig) -> Findings:
    """Whether trainer and suggester can give up the network; another process tries, because it is for good."""
    code = "import sys; from nightjar.host.confinement import forbid_network; sys.exit(not forbid_network())"
    done = subprocess.run(python_command("-c", code), stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - ourselves
    confined = done.returncode == 0
    detail = f"trainer and suggester {'have no' if confined else 'could use the'} network"
    remedy = "nothing, if this system has no seccomp filters: they work all the same"
    yield "network", OK if confined else WARNING, detail, remedy


def _model(config: AgentConfig) -> Findings:
    model = held_model(config)
    if model is None:
        remedy = "nothing: it is fetched when the device is selected first, or announced to its keyboard"
        yield "held", WARNING, "none yet", remedy
        return
    load_keyboard_model(model)
    try:
        runnable(config, model)
    except RemoteProtocolError as error:
        yield "program", FAILED, str(error), "sign it once with the owner's key: nightjar-firmware keys sign"
    yield "held", OK, f"version {model.manifest.version}, can be loaded", ""


# --- elsewhere ---


def _certificate(config: AgentConfig) -> Findings:
    identity = held_identity(config.data_dir)
    if identity is None:
        return
    until, now_s = in_utc(identity.expires_s), time.time()  # noqa: TID251 - the clock itself is checked below
    if now_s < identity.expires_s:
        yield "certificate", OK, f"valid until {until}", ""
        return
    remedy = "leave it on: the agent asks for the next one; if the coordinator refuses, enrol with a new claim"
    detail = f"the certificate of this device ended on {until}, by this device's clock ({in_utc(now_s)})"
    yield "certificate", FAILED, detail, remedy


def _broker(config: AgentConfig) -> Findings:
    if not config.connects:
        yield "connection", OK, WHY, ""
        return
    broker = config.broker
    where = f"{broker.host}:{broker.port}"
    tls = enrolled_tls(config.data_dir)
    if tls is not None:
        yield _broker_with_certificates(where, (broker.host, broker.port), tls)
        return
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # Not the agent's client id: the broker would disconnect the running agent.
    client = client_of(broker_of(config, None), f"nightjar-doctor-{config.device}")
    client.on_connect = lambda _client, _userdata, _flags, reason, _properties: answers.put(reason)
    client.connect_timeout = ANSWER_S
    try:
        client.connect(broker.host, broker.port)
    except (OSError, ssl.SSLError, ValueError) as error:
        remedy = "is it running, and are [broker] host, port and tls right? a firewall may be between"
        yield "connection", FAILED, f"{where}: {error}", remedy
        return
    client.loop_start()
    try:
        reason = answers.get(timeout=ANSWER_S)
    except queue.Empty:
        reason = None
    finally:
        client.disconnect()
        client.loop_stop()
        client.reinitialise()  # closes paho's internal sockets
    if reason is None:
        remedy = "something else listens on that port, or TLS is expected: see [broker] port and tls"
        yield "connection", FAILED, f"{where} does not answer as a broker", remedy
    elif reason.is_failure:
        remedy = "set [broker] username and password as the broker's list has them"
        yield "connection", FAILED, f"{where} refused us: {reason}", remedy
    else:
        yield "connection", OK, f"{where}{' with TLS' if broker.tls else ''}", ""


def _broker_with_certificates(where: str, address: tuple[str, int], tls: ssl.SSLContext) -> Finding:
    """Check the TLS handshake only: an MQTT CONNECT with our certificate would disconnect a running agent."""
    try:
        with socket.create_connection(address, ANSWER_S) as plain, tls.wrap_socket(plain) as connection:
            connection.settimeout(REFUSAL_S)
            try:
                connection.recv(1)
            except TimeoutError:
                return "connection", OK, f"{where} with our certificate", ""
            reason = "closed the connection"
    except OSError as error:
        reason = str(error)
    remedy = "is it running, is the clock right, and was this device blocked or forgotten? see the coordinator's page"
    return "connection", FAILED, f"{where}: {reason}", remedy


def _detail(answer: urllib3.BaseHTTPResponse) -> str:
    """The coordinator's reason for a refusal."""
    try:
        return f": {str(answer.json()['detail'])[:400]}"
    except (ValueError, TypeError, KeyError):
        return ""


def _coordinator(config: AgentConfig) -> Findings:
    if not config.connects:
        yield "connection", OK, WHY, ""
        return
    url, tls = config.coordinator_url, enrolled_tls(config.data_dir)
    try:
        answer = _ask(f"{url}{'/healthz' if tls is None else f'{ROOT}/self'}", tls)
    except UnavailableError as error:
        remedy = "is it running, and is coordinator_url right? the keyboard works without it"
        yield "connection", FAILED, str(error), remedy
        return
    if answer.status not in {200, 503}:  # 503: the coordinator's own problems, which its page shows
        remedy = "is coordinator_url that of a Nightjar coordinator?"
        if tls is not None:
            remedy = "was this device blocked or forgotten? see the coordinator's page; forgotten ones enrol anew"
        yield "connection", FAILED, f"{url} answered {answer.status}{_detail(answer)}", remedy
        return
    yield "connection", OK, url, ""
    try:
        population = answer.json().get("population")
    except (ValueError, AttributeError):
        population = None
    if population is not None:
        remedy = f'set population = "{population}", or the coordinator_url of "{config.population}"'
        yield "population", _ok(population == config.population), f"it serves {str(population)[:80]!r}", remedy


def _clock(config: AgentConfig) -> Findings:
    try:
        answer = _ask(config.coordinator_url, enrolled_tls(config.data_dir)) if config.connects else None
        theirs = None if answer is None else email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
    except (UnavailableError, ValueError, TypeError):
        theirs = None
    if theirs is not None:
        skew_s = abs(time.time() - theirs.timestamp())  # noqa: TID251 - the clock is what is checked
        remedy = "set the clock, or switch its synchronisation on (timedatectl)"
        yield "time", _ok(skew_s <= MOST_SKEW_S), f"{skew_s:.0f} s from the coordinator's", remedy
        return
    try:
        synchronized = run(("timedatectl", "show", "--property=NTPSynchronized", "--value"), ANSWER_S).strip() == "yes"
    except UnavailableError as error:
        yield "time", WARNING, f"cannot be compared with anything ({error})", "look at it"
        return
    detail = "synchronized" if synchronized else "not synchronized"
    yield "time", OK if synchronized else WARNING, detail, "timedatectl set-ntp true"


# --- this device ---

_REMEDIES = {
    Condition.WANTED: "go on with learning on the keyboard's page",
    Condition.CHARGING: "plug it in; a board without a battery that /sys does not describe: conditions.always_powered",
    Condition.IDLE: "leave it alone for a while; see conditions.idle_after_s and ask_logind",
    Condition.UNMETERED: "join an unmetered network, or set conditions.metered",
    Condition.BATTERY_HIGH: "let it charge; see conditions.minimum_battery",
    Condition.COOL: "let it cool down; see conditions.maximum_temperature_c",
    Condition.OUTSIDE_QUIET_HOURS: "wait, or set conditions.quiet_hours",
    Condition.STEADY_POWER: "use a stronger power supply and a shorter cable",
    Condition.DISK_FREE: "free some space; see conditions.minimum_free_disk_bytes",
    Condition.MEMORY_FREE: "close programs; see conditions.minimum_free_memory_bytes",
    Condition.HAS_EXAMPLES: "type on the keyboard's page, or see store.examples: there is nothing to learn from yet",
}


def _conditions(config: AgentConfig) -> Findings:
    policy = config.conditions.policy
    for condition, reading in look_once(config).readings.items():
        match reading.value, policy[condition]:
            case Answer.UNKNOWN, Demand.REQUIRED:
                # A device like this can never train. Not being eligible at the moment is only a warning.
                outcome = FAILED
            case Answer.NO, Demand.REQUIRED | Demand.UNLESS_UNKNOWN:
                outcome = WARNING
            case _:
                outcome = OK
        detail = f"{reading.value.value}: {reading.reason} ({reading.source})"
        enrol = "nothing, unless it should learn with others: nightjar-agent enrol --claim FILE"
        yield condition.value, outcome, detail, enrol if reading.reason == WHY else _REMEDIES[condition]


def _service(config: AgentConfig) -> Findings:
    pid = running_agent(config.data_dir)
    if pid is not None:
        yield "agent", OK, f"running as process {pid}", ""
    else:
        remedy = f"systemctl start {SERVICE}, or: nightjar-agent run --config FILE"
        yield "agent", WARNING, "not running", remedy
    if config.emulator is not None:
        return
    try:
        enabled = run(("systemctl", "is-enabled", SERVICE), ANSWER_S).strip()
    except UnavailableError as error:
        remedy = "nightjar-agent service prints a unit that starts it with the device (docs/device.md)"
        yield "start", WARNING, f"does not start with the device ({error})", remedy
    else:
        yield "start", OK, f"{SERVICE} is {enabled}", ""


def _sandbox(config: AgentConfig) -> Findings:
    """What the running agent's unit keeps from it and its processes; where nothing does, what is open."""
    if config.emulator is not None:
        return
    pid, systemd = running_agent(config.data_dir), SYSTEMD.is_dir()
    if systemd and pid is None:
        yield "unit", WARNING, "not known, because no agent is running", "start it, and look again"
        return
    unit = unit_of(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")) if systemd else None
    if unit is None:
        why = "the agent is no service of systemd" if systemd else "there is no systemd here"
        detail = f"{why}, so beside its user's rights nothing keeps it in: {'; '.join(open_without_systemd())}"
        remedy = "start it as a service (docs/device.md); without systemd, give it a user or a machine of its own"
        yield "unit", WARNING, detail, remedy
        return
    asked = ",".join(wanted(of_a_person=unit.of_a_person))
    command = ("systemctl", *(("--user",) if unit.of_a_person else ()), "show", unit.name, f"--property={asked}")
    try:
        lines = run(command, ANSWER_S).splitlines()
    except UnavailableError as error:
        yield "unit", WARNING, f"not known, because systemd does not answer ({error})", "run this as the agent's user"
        return
    shown = dict(line.split("=", 1) for line in lines if "=" in line)
    missing = lacking(shown, of_a_person=unit.of_a_person)
    if missing:
        remedy = f"systemctl revert {unit.name} takes its drop-ins away; nightjar-agent service prints it anew"
        yield "unit", WARNING, f"{unit.name} lacks a part of its sandbox: {'; '.join(missing)}", remedy
    elif unit.of_a_person:
        left = "; ".join(open_without_systemd(of_a_person=True))
        yield "unit", OK, f"{unit.name} has what a person's own systemd can do; beside it {left}", ""
    else:
        yield "unit", OK, f"{unit.name} has its whole sandbox", ""


def _ask(url: str, tls: ssl.SSLContext | None) -> urllib3.BaseHTTPResponse:
    timeout = urllib3.Timeout(connect=ANSWER_S, read=ANSWER_S)
    named = None if tls is None else COORDINATOR_NAME
    try:
        with urllib3.PoolManager(ssl_context=tls, assert_hostname=named) as pool:
            return pool.request("GET", url, timeout=timeout, retries=False)
    except (urllib3.exceptions.HTTPError, socket.gaierror) as error:
        msg = f"{url} does not answer: {error}"
        raise UnavailableError(msg) from error


def _ok(fine: bool) -> CheckOutcome:
    return OK if fine else FAILED
