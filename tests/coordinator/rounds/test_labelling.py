"""Which devices a rule gives its label."""

import pytest

from nightjar.coordinator.rounds.labelling import Labelling, LabelRule, conditions, labels_of, with_rule, without_rule
from nightjar.coordinator.rounds.lease import MOST_LABELS, CheckInCame, Lease, step
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CheckIn

PI = Lease(
    device=DeviceId("pi-3"), agent_version="0.10.0", runtime="tflite-runtime 2.14.0", memory_bytes=427 << 20,
    labels="kitchen",
)  # fmt: skip


def given(lease=PI, **wanted):
    return "ruled" in labels_of(lease, Labelling(rules=(LabelRule(label="ruled", **wanted),))).split()


@pytest.mark.parametrize(
    ("met", "not_met"),
    [
        ({}, {"device": "pi-4"}),
        ({"device": "pi-*"}, {"device": "*-4"}),
        ({"runtime": "tflite-runtime *"}, {"runtime": "ai-edge-litert *"}),
        ({"minimum_agent_version": "0.9.0"}, {"minimum_agent_version": "0.11.0"}),
        ({"maximum_memory_mb": 512}, {"maximum_memory_mb": 400}),
        ({"minimum_memory_mb": 427}, {"minimum_memory_mb": 428}),
        ({"emulated": False}, {"emulated": True}),
        ({"labels": ("kitchen",)}, {"labels": ("kitchen", "porch")}),
    ],
)
def test_each_condition_must_be_met(met, not_met):
    assert given(**met)
    assert not given(**not_met)
    assert not given(**(met | not_met | {"device": "other"}))


def test_a_device_whose_memory_is_unknown_is_neither_small_nor_large():
    assert not given(Lease(device=DeviceId("a")), maximum_memory_mb=512)
    assert not given(Lease(device=DeviceId("a")), minimum_memory_mb=1)
    told = CheckIn(agent_version="0.1.0", runtime="none", examples=1, memory_bytes=2**30)
    assert given(step(Lease(device=DeviceId("a")), CheckInCame(told, 1.0)), minimum_memory_mb=1024)


def test_labels_that_rules_gave_are_no_condition_of_others():
    rules = Labelling(rules=(LabelRule(label="a", labels=("b",)), LabelRule(label="b")))
    assert labels_of(PI, rules) == "b kitchen"
    assert labels_of(Lease(device=DeviceId("a"), labels="b"), rules) == "b"


def test_what_was_given_by_hand_comes_before_what_rules_give():
    full = " ".join(f"l{number:02d}" for number in range(MOST_LABELS))
    assert labels_of(Lease(device=DeviceId("a"), labels=full), Labelling(rules=(LabelRule(label="all"),))) == full


def test_a_rule_replaces_the_one_for_its_label_and_a_dropped_one_leaves_no_label():
    first, second = LabelRule(label="pi", device="pi-*"), LabelRule(label="pi", device="raspi-*")
    labelling = with_rule(with_rule(Labelling(), first), second)
    assert (labelling.rules, labelling.after) == ((second,), "")
    dropped = without_rule(labelling, "pi")
    assert (dropped.rules, dropped.dropped, dropped.governed) == ((), ("pi",), {"pi"})
    assert labels_of(Lease(device=DeviceId("a"), labels="kitchen pi"), dropped) == "kitchen"
    assert with_rule(dropped, first).dropped == ()


def test_conditions_are_told_in_words():
    assert conditions(LabelRule(label="all")) == "every device"
    assert conditions(LabelRule(label="x", labels=("a", "b"), device="pi-*")) == "named pi-*, with label a and b"
