import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nightjar.coordinator.rounds.admission import Candidate, Declined, Requirements, choose, free_slot, in_slot
from nightjar.coordinator.rounds.eligibility import Eligibility, Variant
from nightjar.coordinator.rounds.events import DeviceCheckedIn, DeviceDroppedOut
from nightjar.coordinator.rounds.lease import CheckInCame, Lease, step
from nightjar.coordinator.rounds.round import Phase, Round, open_round
from nightjar.coordinator.rounds.rules import rules_for
from nightjar.coordinator.rounds.seats import Seat
from nightjar.coordinator.rounds.selection import Admission
from nightjar.coordinator.rounds.synchronous import step as step_round
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CheckIn, DropoutCause, RejectionReason, Work
from nightjar.wire.shares import share_of

A = DeviceId("a")
OFFER = CheckIn(agent_version="0.2.0", runtime="ai-edge-litert 2.1", examples=5, memory_bytes=10**9)
DEVICES = [DeviceId(f"phone-{number}") for number in range(12)]


def lease(device: DeviceId = A, offer: CheckIn = OFFER) -> Lease:
    return step(Lease(device=device), CheckInCame(offer, 1.0))


def gate(
    kind: Work = Work.TRAIN,
    minimum: int = 1,
    slot: float = 0.0,
    experiment: str = "",
    share: float = 1.0,
    **eligibility,
) -> Requirements:
    admission = Admission(minimum_examples=minimum, minimum_agent_version="0.1.0")
    return Requirements(kind, admission, Eligibility(**eligibility), Variant(experiment=experiment, share=share), slot)


def opened(number: int, task: str, goal: int = 4) -> Round:
    rules = rules_for(goal=goal, minimum=1, over_selection=1, selection_deadline_s=60, report_deadline_s=600)
    return open_round(number, 0, rules, 7, 0.0, task=task)


def pooled(state: Round, *devices: str) -> Round:
    return replace(state, pool=tuple(map(DeviceId, devices)))


def chosen(*candidates: Candidate, offer: CheckIn = OFFER, device: DeviceId = A) -> str:
    found = choose(lease(device, offer), offer, candidates, 1.0)
    return found.refusal.detail if isinstance(found, Declined) else found.task


def test_a_device_goes_where_most_of_the_cohort_is_lacking():
    full, half, quarter = (opened(number, f"t{number}") for number in (1, 2, 3))
    full, half, quarter = pooled(full, *"bcde"), pooled(half, "b", "c"), pooled(quarter, "b")
    candidates = [Candidate(state, gate()) for state in (full, half, quarter)]
    assert chosen(*candidates) == "t3"
    assert chosen(*candidates[:2]) == "t2"
    assert chosen(candidates[0]) == "t1"


def test_a_pool_is_filled_to_its_minimum_before_another_is_begun():
    """Two phones and two tasks: each in a pool of its own, they would wait for each other for ever."""

    def pair(number: int, task: str, *devices: str) -> Candidate:
        state = opened(number, task)
        return Candidate(pooled(replace(state, rules=replace(state.rules, minimum=2)), *devices), gate())

    assert chosen(pair(1, "first"), pair(2, "second")) == "first"
    assert chosen(pair(1, "first", "b"), pair(2, "second")) == "first"
    assert chosen(pair(1, "first"), pair(2, "second", "b")) == "second"
    assert chosen(pair(1, "first", "b", "c"), pair(2, "second")) == "second", "the first may begin; now by need"


def test_a_seat_that_somebody_lost_comes_before_a_pool_that_is_full():
    under_way = opened(1, "first", goal=2)
    for device in ("b", "c"):
        under_way, _ = step_round(under_way, DeviceCheckedIn(DeviceId(device), 1.0))
    under_way = replace(under_way, phase=Phase.REPORTING, pool=(), started_at_s=1.0, deadline_s=601.0)
    under_way = replace(under_way, seats={DeviceId("b"): Seat(), DeviceId("c"): Seat()}, working=2)
    full = pooled(opened(2, "second", goal=1), "d")
    assert chosen(Candidate(under_way, gate()), Candidate(full, gate())) == "second"
    room, _ = step_round(under_way, DeviceDroppedOut(DeviceId("b"), 1, DropoutCause.IN_USE, 2.0))
    assert chosen(Candidate(room, gate()), Candidate(full, gate())) == "first"
    empty = opened(3, "third")
    assert chosen(Candidate(room, gate()), Candidate(empty, gate())) == "third"


def test_who_works_or_waits_for_a_task_stays_with_it_even_if_another_needs_it_more():
    mine = pooled(opened(1, "mine", goal=1), "a")
    assert chosen(Candidate(mine, gate()), Candidate(opened(2, "other"), gate())) == "mine"
    at_work = replace(mine, phase=Phase.REPORTING, pool=(), seats={A: Seat()}, working=1, deadline_s=600.0)
    assert chosen(Candidate(at_work, gate()), Candidate(opened(2, "other"), gate())) == "mine"


@pytest.mark.parametrize(
    ("offered", "detail"),
    [
        ("classification", "it has no plug-in for the task type keyboard"),
        ("keyboard:labels-missing", "its examples cannot be used: labels-missing"),
    ],
)
def test_a_device_without_plug_in_or_usable_examples_is_not_selected(offered, detail):
    changed = replace(OFFER, task_types=(offered,))
    assert chosen(Candidate(opened(1, "words"), gate()), offer=changed) == detail


def test_a_device_without_the_codec_of_another_package_is_not_selected():
    wanted = gate()
    wanted = dataclasses.replace(wanted, admission=dataclasses.replace(wanted.admission, codec="signs"))
    candidate = Candidate(opened(1, "words"), wanted)
    assert chosen(candidate) == "it has no plug-in for the codec signs"
    assert chosen(candidate, offer=replace(OFFER, codecs=("other", "signs"))) == "words"


def test_an_agent_of_before_the_sampled_codec_is_told_and_gets_a_task_of_another_codec_if_there_is_one():
    wanted = gate()
    wanted = dataclasses.replace(wanted, admission=dataclasses.replace(wanted.admission, codec="sampled-4"))
    sampled = Candidate(opened(1, "sampled"), wanted)
    assert chosen(sampled) == "this agent is too old for the codec sampled-4"
    assert chosen(sampled, Candidate(opened(2, "topk"), gate())) == "topk"
    assert chosen(sampled, offer=replace(OFFER, codecs=("sampled-4",))) == "sampled"


@pytest.mark.parametrize(
    ("wanted", "offer", "detail"),
    [
        ({"minimum": 9}, {}, "9 examples are needed, the device has 5"),
        ({"minimum_agent_version": "0.3.0"}, {}, "this task needs agent 0.3.0 or newer, got 0.2.0"),
        ({"emulated": True}, {}, "only emulated phones are wanted"),
        ({"emulated": False}, {"emulated": True}, "only real phones are wanted"),
        ({"labels": ("porch", "kitchen")}, {}, "only devices with the label kitchen are wanted"),
        ({"kind": Work.EVALUATE}, {}, "this agent cannot evaluate"),
    ],
)
def test_a_task_that_does_not_want_a_device_says_why_and_another_gets_it(wanted, offer, detail):
    changed = replace(OFFER, **offer)
    picky = Candidate(opened(1, "picky"), gate(**wanted))
    assert chosen(picky, offer=changed) == detail
    assert chosen(picky, Candidate(opened(2, "other"), gate()), offer=changed) == "other"


def test_a_device_that_has_all_labels_of_a_task_may_join_it():
    wanted = gate(labels=("kitchen", "porch"))
    for labels, joins in (("kitchen", False), ("kitchens porch", False), ("attic kitchen porch", True)):
        found = choose(replace(lease(), labels=labels), OFFER, [Candidate(opened(1, "mine"), wanted)], 1.0)
        assert isinstance(found, Round) is joins


def test_of_several_refusals_the_one_that_leaves_most_hope_is_told():
    tired = replace(lease(), last_round=4, rounds_counted=1)
    strict = gate()
    lately = Requirements(
        strict.kind, Admission(1, "0.1.0", minimum_separation=9), strict.eligibility, strict.variant, 0.0
    )
    sooner = Requirements(
        strict.kind, Admission(1, "0.1.0", minimum_separation=5), strict.eligibility, strict.variant, 0.0
    )
    states = [Candidate(opened(5, "never"), gate(emulated=True)), Candidate(opened(6, "late"), lately)]
    states.append(Candidate(opened(7, "soon"), sooner))
    declined = choose(tired, OFFER, states, 1.0)
    assert (declined.task, declined.refusal.reason) == ("soon", RejectionReason.TOOK_PART_LATELY)
    assert choose(tired, OFFER, states[:1], 1.0).task == "never"


# Variants


shares = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6)


@given(shares)
def test_slots_never_overlap_and_stay_within_the_whole(wanted):
    taken: list[tuple[float, float]] = []
    for share in wanted:
        begin = free_slot(share, taken)
        if begin is None:
            continue
        assert begin >= 0
        assert begin + share <= 1 + 1e-9
        assert all(begin >= other + length - 1e-8 or begin + share <= other + 1e-8 for other, length in taken)
        taken.append((begin, share))


def test_ten_tenths_fill_the_whole_and_no_eleventh_fits():
    taken: list[tuple[float, float]] = []
    for _ in range(10):
        taken.append((free_slot(0.1, taken), 0.1))
    assert free_slot(0.1, taken) is None
    for number in range(300):
        device = DeviceId(f"phone-{number}")
        homes = [in_slot(Variant(experiment="x", share=share), slot, device) for slot, share in taken]
        assert sum(homes) == 1, "every device is in exactly one"


def test_the_room_of_a_variant_that_ended_is_given_out_again_and_the_others_keep_theirs():
    assert free_slot(0.3, [(0.0, 0.3), (0.6, 0.3)]) == 0.3


@settings(max_examples=25)
@given(st.text("abcdefgh", min_size=1, max_size=8), st.floats(0.05, 0.95))
def test_a_share_holds_within_what_chance_allows(experiment, share):
    many = 2000
    inside = sum(in_slot(Variant(experiment=experiment, share=share), 0.0, DeviceId(f"d{n}")) for n in range(many))
    assert abs(inside - many * share) < 6 * math.sqrt(many * share * (1 - share)), "six standard deviations"


def test_the_variants_of_two_experiments_are_drawn_independently():
    def inside(experiment: str, device: DeviceId) -> bool:
        return in_slot(Variant(experiment=experiment, share=0.5), 0.0, device)

    devices = [DeviceId(f"d{n}") for n in range(2000)]
    both = sum(inside("x", device) and inside("y", device) for device in devices)
    assert abs(both - 500) < 6 * math.sqrt(2000 * 0.25 * 0.75)


@given(st.sampled_from(DEVICES), st.integers(0, 5))
def test_a_device_stays_in_its_variant_whatever_other_tasks_come(device, others):
    variants = [
        Candidate(opened(number, f"v{number}"), gate(slot=slot, experiment="x", share=0.5))
        for number, slot in ((1, 0.0), (2, 0.5))
    ]
    mine = "v1" if share_of("x", device) < 0.5 else "v2"
    assert chosen(*variants, device=device) == mine
    # Other tasks that it is not wanted for, and other experiments' slots that it is not in.
    noise = [Candidate(opened(3 + n, f"n{n}"), gate(emulated=True, experiment=f"y{n}")) for n in range(others)]
    assert chosen(*noise, *variants, device=device) == mine


@given(st.lists(st.tuples(st.sampled_from(DEVICES), st.floats(0, 0.4)), max_size=60))
def test_no_device_is_ever_in_two_tasks(arrivals):
    rounds = {name: opened(number, name, goal=3) for number, name in enumerate(("x", "y", "z"), 1)}
    now_s = 0.0
    for device, passed_s in arrivals:
        now_s += passed_s
        found = choose(lease(device), OFFER, [Candidate(state, gate()) for state in rounds.values()], now_s)
        assert isinstance(found, Round)
        rounds[found.task], _ = step_round(found, DeviceCheckedIn(device, now_s))
        held = [name for name, state in rounds.items() if device in state.pool or device in state.seats]
        assert len(held) <= 1
