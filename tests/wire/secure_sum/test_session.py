"""The name of a session binds all that its devices are ordered to do."""

import msgspec
import pytest
from msgspec.structs import replace

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.identifiers import Sha256
from nightjar.wire.messages import Assignment, CodecChoice, PrivacyTerms, TrainingPlan, Work
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank
from nightjar.wire.secure_sum.order import BINDING, SumOrder, binding_faults
from nightjar.wire.secure_sum.session import EACH_ITS_OWN, session_of, terms_of_assignment

ORDER = SumOrder(
    number=7,
    threshold=3,
    cohort=12,
    rank=Rank(rows=8, right=2, left=2),
    grid=Grid(step=0.01, most=127),
    clip_norm=2.0,
    most_examples=100,
    noise_variance=400,
    binding=BINDING,
)
ASSIGNED = Assignment(
    task="keyboard",
    round=4,
    attempt=2,
    version=9,
    manifest=Sha256("a" * 64),
    codec=CodecChoice(),
    plan=TrainingPlan(learning_rate=0.5, clip_norm=1.0),
    report_deadline_s=600.0,
    minimum=9,
    secure_sum=ORDER,
    privacy=PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4),
    number=31,
    signed_s=1e9,
    not_after_s=1e9 + 60,
)


def changed(value):
    """Values like this one, but for one field somewhere inside."""
    match value:
        case msgspec.Struct():
            for field in msgspec.structs.fields(value):
                for other in changed(getattr(value, field.name)):
                    yield replace(value, **{field.name: other})
        case bool():
            yield not value
        case int() | float():
            yield value + 1
            yield value / 2 + 0.125 if isinstance(value, float) else value + 2
        case Work():
            yield from (each for each in Work if each is not value)
        case str():
            yield value + "b"
        case None:
            yield None


def test_a_session_is_another_for_whatever_else_a_device_is_told():
    alike, differing = set(), set()
    for field in msgspec.structs.fields(Assignment):
        for other in changed(getattr(ASSIGNED, field.name)):
            told = replace(ASSIGNED, **{field.name: other})
            same = session_of(told, "demo") == session_of(ASSIGNED, "demo")
            (alike if same else differing).add(field.name)
    bound = set(Assignment.__struct_fields__) - EACH_ITS_OWN.keys()
    assert (alike, differing) == (EACH_ITS_OWN.keys(), bound), "a new field is bound, unless each device has its own"


@pytest.mark.parametrize("left_out", ["secure_sum", "privacy"])
def test_a_session_with_an_order_less_is_another(left_out):
    assert session_of(replace(ASSIGNED, **{left_out: None}), "demo") != session_of(ASSIGNED, "demo")


def test_a_session_is_another_in_another_population():
    assert session_of(ASSIGNED, "other") != session_of(ASSIGNED, "demo")


def test_the_name_survives_the_wire_and_does_not_change_between_releases():
    read = msgspec.json.decode(msgspec.json.encode(ASSIGNED), type=Assignment)
    named = session_of(read, "demo").hex()
    assert named == session_of(ASSIGNED, "demo").hex() == GOLDEN, "a change needs a new BINDING"


GOLDEN = "9d441d911b29ae3ad43c87befb7449cc086d791e93d316d9b60254aa9a644b35"


def test_the_terms_are_those_of_the_order():
    layout = ParameterLayout((ParameterSpec("bias", (50,)),))
    terms = terms_of_assignment(ASSIGNED, layout, "demo")
    assert (terms.session, terms.threshold, terms.minimum) == (session_of(ASSIGNED, "demo"), 3, 9)
    with pytest.raises(LocalProtocolError, match="no secure sum"):
        terms_of_assignment(replace(ASSIGNED, secure_sum=None), layout, "demo")


@pytest.mark.parametrize(("binding", "older"), [(0, "coordinator"), (BINDING + 1, "agent")])
def test_a_sum_that_binds_otherwise_is_refused_with_what_to_update(binding, older):
    (fault,) = binding_faults(replace(ORDER, binding=binding))
    assert fault.endswith(f"got {binding}; update the {older}")
