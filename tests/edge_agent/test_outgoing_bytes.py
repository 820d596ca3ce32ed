"""Every byte that leaves the device in a whole life, MQTT and HTTP, among real sockets: none of it is typed text."""

import base64
import contextlib
import random

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.wire import frame
from nightjar.wire.messages import Announcement, CodecChoice, DropoutCause, Receipt, TrainingPlan, Verdict
from tests.edge_agent.fake_coordinator import FakeCoordinator, artifact_server, mosquitto, mosquitto_path
from tests.edge_agent.recorder import recording
from tests.edge_agent.test_agent_process import Agent, ask, make_assignment

INVENTED = "zyzzyva"
ON_THE_KEYBOARD = "qwyjibo flumphs gently"


def spellings(text):
    """The bytes in which a text could leave."""
    yield text.encode()
    yield text.encode("utf-16-le")
    yield text.encode().hex().encode()
    # In base64 the beginning depends on what stands before it: the middle is the same for one of three offsets.
    for offset in range(3):
        yield base64.b64encode(b" " * offset + text.encode())[4:-4]


@pytest.mark.broker
@pytest.mark.tflite
@pytest.mark.parametrize("codec", ["topk-4", "dense-f32"])
def test_no_typed_text_in_any_byte_that_leaves_the_device(tmp_path, exported, codec):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    generator = random.Random(1)
    texts = [" ".join([*generator.choices(exported.words[:60], k=9), INVENTED]) for _ in range(200)]
    (tmp_path / "messages.txt").write_text("\n".join(texts))
    port, page = free_ports(2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mosquitto(tmp_path, port))
        url = stack.enter_context(artifact_server(exported.artifacts))
        mqtt = stack.enter_context(recording(port))
        http = stack.enter_context(recording(int(url.rpartition(":")[2])))
        coordinator = FakeCoordinator(port)
        stack.callback(coordinator.close)
        agent = Agent(tmp_path, mqtt.port, f"http://127.0.0.1:{http.port}", keyboard_port=page)
        agent.day()
        agent.config.write_text(agent.config.read_text().replace("poll_s", "idle_after_s = 0\npoll_s"))
        agent.start()
        stack.callback(lambda: agent.process.poll() is None and agent.kill())
        coordinator.announce(Announcement(version=0, manifest=exported.model.sha256))
        coordinator.next("check-in")
        ask(agent, page, "/api/suggest", {"text": ON_THE_KEYBOARD})
        assert ask(agent, page, "/api/messages", {"text": ON_THE_KEYBOARD})["kept"]
        # A session that ends with a report, one that is given up, and a farewell.
        coordinator.say("phone", make_assignment(exported, 1, codec=CodecChoice(name=codec)))
        while not isinstance(frame.decode(coordinator.next("report")), frame.Report | frame.Chunk):
            pass
        coordinator.say("phone", Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED))
        coordinator.next("check-in")
        long = TrainingPlan(learning_rate=0.1, clip_norm=1.0, local_epochs=1000)
        coordinator.say("phone", make_assignment(exported, 2, plan=long))
        coordinator.next("status", state="training")
        assert agent.stop()[0] == 0
        assert coordinator.next("dropout").cause is DropoutCause.RESTARTED
    assert len(mqtt.outgoing) > 1_000
    assert b"/artifacts/" in http.outgoing
    secrets = {INVENTED, *ON_THE_KEYBOARD.split()}
    for text in texts:
        words = text.split()
        secrets.update(f"{one} {two} {three}" for one, two, three in zip(words, words[1:], words[2:], strict=False))
    outgoing = mqtt.outgoing + http.outgoing
    for secret in secrets:
        for spelling in spellings(secret):
            if len(spelling) >= 6:
                assert spelling not in outgoing, secret
