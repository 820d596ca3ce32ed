"""``kill -9`` on phones and on the coordinator in the middle of a round: nothing is counted twice, nothing is lost."""

import contextlib
import hashlib
import os
import re
import signal
import sqlite3
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import paho.mqtt.client as mqtt
import pytest
from rich.console import Console

from nightjar.coordinator.learning.fedavg import (
    Contribution,
    first_clip_norm,
    largest_weight,
    norm_of,
    weight_of,
    weighted_mean,
)
from nightjar.coordinator.learning.strategies.server_optimizer import fed_avg
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.models.manifest import Manifest
from nightjar.simulation.demo.configuration import DemoSettings
from nightjar.simulation.demo.fleet import DemoFleet
from nightjar.simulation.demo.preparation import prepare
from nightjar.simulation.demo.processes import stopping
from nightjar.simulation.demo.reading import read_state
from nightjar.wire.codec import codec_for
from nightjar.wire.frame import Report, decode
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import weights_from_bytes
from tests.brokers import hang_up

pytestmark = [
    *(pytest.mark.verify, pytest.mark.broker, pytest.mark.tflite, pytest.mark.tensorflow),
    pytest.mark.timeout(900),  # four rounds of six phones, some killed, beside whatever else runs
]

ROUNDS = 4


def wait_for(url, condition, limit_s=400):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        state = read_state(url)
        if state is not None and condition(state):
            return state
        time.sleep(0.1)
    pytest.fail(f"not within {limit_s} s; last state: {state}")


def test_the_run_goes_on_and_every_accepted_report_is_counted_exactly_once(run_folder, mosquitto):
    settings = DemoSettings(
        phones=6,
        rounds=ROUNDS,
        model="tiny",
        corpus="personas",
        seed=4,
        codec="topk-8",
        density=0.05,
        folder=run_folder,
        plain=True,  # what phones send is overheard
    )
    prepared = prepare(settings, Console(quiet=True))
    fleet = DemoFleet(prepared, mosquitto)
    with stopping(fleet.groups), overheard(prepared.broker_port) as frames:
        fleet.start()
        victims = held_in_the_middle_of_a_round(fleet, prepared.url)
        for service in (*victims, fleet.coordinator):
            service.kill()
        time.sleep(1.0)
        fleet.coordinator.start()
        wait_for(prepared.url, lambda _: True)
        for victim in victims:
            victim.start()
        done = wait_for(prepared.url, lambda s: s["task"]["state"] == "finished", limit_s=600)
        fleet.check(pytest.fail)

    assert done["counters"]["rounds_committed"] == ROUNDS
    accepted = accepted_by_receipt(run_folder)
    with contextlib.closing(sqlite3.connect(run_folder / "coordinator" / "coordinator.sqlite")) as database:
        stored = {(r, d) for r, d in database.execute("SELECT round, device FROM reports")}
        assert accepted <= stored, "a device was told 'accepted' and the report is gone"
        check_versions_are_the_means_of_their_reports(
            database, frames, FileBlobs(run_folder / "coordinator" / "artifacts")
        )
    for log in (run_folder / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), log


def held_in_the_middle_of_a_round(fleet, url):
    """Two phones that stand still at work, in the second round or later, when another's report is in.

    A short round is over between two looks, so three phones are held: without them it has too few reports to end.
    """
    while True:
        began = wait_for(url, lambda s: s["counters"]["rounds_committed"] >= 1 and len(at_work(s["round"])) >= 4)
        number, busy = began["round"]["number"], at_work(began["round"])
        held = [phone for phone in fleet.phones if phone.name in busy][:3]
        for phone in held:
            os.kill(phone.pid, signal.SIGSTOP)
        middle = wait_for(url, partial(has_a_report_or_is_over, number))["round"]
        os.kill(held[2].pid, signal.SIGCONT)
        if in_round(middle, number) and middle["reported"] and {phone.name for phone in held[:2]} <= at_work(middle):
            return held[:2]
        for phone in held[:2]:  # the others were all unplugged or in use before they reported
            os.kill(phone.pid, signal.SIGCONT)


def in_round(current, number):
    return bool(current) and current["number"] == number and current["phase"] == "reporting"


def has_a_report_or_is_over(number, state):
    return not in_round(state["round"], number) or bool(state["round"]["reported"])


def at_work(current):
    """Selected and neither reported nor dropped."""
    if not current or current["phase"] != "reporting":
        return set()
    return set(current["selected"]) - {*current["reported"], *current["dropped"]}


def accepted_by_receipt(folder):
    """(round, device) of every receipt that a phone logged as accepted."""
    found = set()
    for log in (folder / "logs").glob("phone-*.log"):
        for line in log.read_text().splitlines():
            receipt = re.search(r"event='?receipt'? .*round=(\d+).*verdict='?accepted'?", line)
            if receipt:
                found.add((int(receipt.group(1)), log.stem))
    assert found
    return found


@contextlib.contextmanager
def overheard(port):
    """Every report that goes over the broker, by its name: the coordinator forgets reports once a round is over."""
    frames = {}

    def keep(_client, _userdata, message):
        frames[hashlib.sha256(message.payload).hexdigest()] = message.payload

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="ear")
    client.username_pw_set("ear")
    client.on_connect = lambda c, *_: c.subscribe("nightjar/1/demo/up/+/+/report", qos=1)
    client.on_message = keep
    client.connect_async("127.0.0.1", port)
    client.reconnect_delay_set(1, 1)
    client.loop_start()
    yield frames
    hang_up(client)


def check_versions_are_the_means_of_their_reports(database, frames, artifacts):
    """Each version is its base plus the mean of the stored reports, each once: bit for bit."""
    versions = database.execute("SELECT version, manifest, round, clip_norm FROM versions ORDER BY version").fetchall()
    assert [v for v, *_ in versions] == list(range(ROUNDS + 1))
    codec, optimizer = codec_for(CodecChoice(name="topk-8", density=0.05)), fed_avg(1.0)
    for (_, base, _, clip_norm), (_, manifest, number, _) in pairwise(versions):
        before, after = (Manifest.decode(artifacts.get(name)) for name in (base, manifest))
        layout = before.layout
        rows = database.execute(
            "SELECT device, sha256 FROM reports WHERE round = ? ORDER BY device", (number,)
        ).fetchall()
        assert len({device for device, _ in rows}) == len(rows), "a device is in one round twice"
        reports = [decode(frames[sha256]) for _, sha256 in rows]
        assert all(isinstance(report, Report) for report in reports)
        cap = largest_weight(report.num_examples for report in reports)
        contributions = [
            Contribution(device, weight_of(report.num_examples, cap), codec.decode(report.payload, layout))
            for (device, _), report in zip(rows, reports, strict=True)
        ]
        if clip_norm is None:
            clip_norm = first_clip_norm([norm_of(each.update) for each in contributions])
        weights = weights_from_bytes(artifacts.get(before.weights.sha256), layout)
        scales = [min(1.0, clip_norm / norm_of(each.update)) for each in contributions]
        clipped = [replace(each, scale=scale) for each, scale in zip(contributions, scales, strict=True)]
        mean = weighted_mean(clipped, layout.size)
        expected, _ = optimizer.apply(weights, mean, optimizer.init(layout.size))
        got = weights_from_bytes(artifacts.get(after.weights.sha256), layout)
        assert np.array_equal(got, expected), f"round {number}"
