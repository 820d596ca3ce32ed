import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire import topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import device_id, population

DEMO, PHONE = population("demo"), device_id("phone-01")


def test_topics_round_trip():
    for kind in topics.UP_KINDS:
        assert topics.parse(topics.up(DEMO, PHONE, kind, 4)) == topics.UpTopic(DEMO, 3, PHONE, kind)
    for kind in topics.DOWN_KINDS:
        assert topics.parse(topics.down(DEMO, PHONE, kind)) == topics.DownTopic(DEMO, PHONE, kind)
    assert topics.parse(topics.status(DEMO, PHONE)) == topics.StatusTopic(DEMO, PHONE)
    assert topics.parse(topics.announce(DEMO)) == topics.AnnounceTopic(DEMO)


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "nightjar/2/demo/announce",
        "nightjar/1/demo/up/0/phone-01/launch",
        "nightjar/1/demo/up/x/phone-01/report",
        "nightjar/1/demo/up/\u00b2/phone-01/report",
        "nightjar/1/demo/up/0/../report",
        "nightjar/1/demo/status/a b",
        "nightjar/1/demo/status/" + "a" * 65,
    ],
)
def test_foreign_topics_are_protocol_errors(topic):
    with pytest.raises(RemoteProtocolError):
        topics.parse(topic)


@given(st.text(max_size=80))
def test_any_text_is_a_topic_or_a_protocol_error(text):
    with pytest.raises(RemoteProtocolError):
        topics.parse("nightjar/1/" + text + "/")


@pytest.mark.parametrize("name", ["", "+", "#", "a/b", "../x", "-x", "a\n", "é"])
def test_names_that_mean_something_to_mqtt_or_a_file_system_are_refused(name):
    with pytest.raises(RemoteProtocolError, match="letters, digits"):
        device_id(name)
