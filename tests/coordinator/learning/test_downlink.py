import numpy as np
import pytest

from nightjar.coordinator.learning import downlink
from nightjar.coordinator.learning.downlink import DENSITY, F32, FORMS, Base, keeps_residual, publish, ways_to
from nightjar.wire.codec.transfers import apply_transfer
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (300, 16)),))


def rng(seed=0):
    return np.random.default_rng(seed)


def first():
    return rng().normal(size=LAYOUT.size).astype(np.float32)


FIRST = Base("0" * 64, first())


def step(seed, density=0.05):
    change = rng(seed).normal(scale=0.01, size=LAYOUT.size)
    return np.where(rng(seed + 100).random(LAYOUT.size) < density, change, 0.0)


@pytest.mark.parametrize("form", FORMS)
def test_every_way_leads_to_the_published_weights_bit_for_bit(form):
    weights, residual, earlier = first(), np.zeros(LAYOUT.size), []
    for number in range(4):
        target = weights + residual + step(number)
        published = publish(Base(f"{number:064d}", weights), target, form, LAYOUT, rng(number))
        previous = Base(f"{number:064d}", weights)
        known = {base.sha256: base.weights for base in (previous, *earlier)} | {None: None}
        ways = ways_to(published, [previous, *earlier], LAYOUT)
        assert ways
        for transfer, data in ways:
            got = apply_transfer(data, known[transfer.base], LAYOUT)
            assert got.tobytes() == published.weights.tobytes()
            assert len(data) < 4 * LAYOUT.size / 2 + 100
        residual = np.zeros(LAYOUT.size) if published.residual is None else published.residual
        weights, earlier = published.weights, [previous, *earlier]


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_lost_on_the_way_down(form):
    weights, residual, wanted = first(), np.zeros(LAYOUT.size), first().astype(np.float64)
    for number in range(10):
        wanted += step(number)
        published = publish(Base("0" * 64, weights), weights + residual + step(number), form, LAYOUT, rng(number))
        weights = published.weights
        residual = np.zeros(LAYOUT.size) if published.residual is None else published.residual
    assert np.abs(weights + residual - wanted).max() < 1e-5


def test_one_transfer_from_the_reference_leads_to_each_version_and_nothing_is_lost():
    target = FIRST.weights.astype(np.float64)
    for number in range(6):
        target = target + step(number, density=1.0)
        published = publish(FIRST, target, "topk-8", LAYOUT, rng(number))
        ((transfer, data),) = ways_to(published, [], LAYOUT)
        assert transfer.base == FIRST.sha256
        assert apply_transfer(data, FIRST.weights, LAYOUT).tobytes() == published.weights.tobytes()
        assert np.abs(published.weights + published.residual - target).max() < 1e-5
    changed = np.flatnonzero(published.weights != FIRST.weights)
    change = np.abs(target - FIRST.weights)
    assert changed.size <= DENSITY * LAYOUT.size + 1
    assert change[changed].min() > np.quantile(change, 1 - DENSITY) - 1e-4, "the largest of all rounds together"


def test_a_transfer_of_many_bits_a_value_is_shortened(monkeypatch):
    long = len(publish(FIRST, FIRST.weights + step(1, density=1.0), "topk-8", LAYOUT, rng()).way[1])
    monkeypatch.setattr(downlink, "SHORT_BYTES", 0)
    monkeypatch.setattr(downlink, "MOST_BYTES_PER_WEIGHT", 0.2)
    short = publish(FIRST, FIRST.weights + step(1, density=1.0), "topk-8", LAYOUT, rng())
    assert len(short.way[1]) <= 0.2 * LAYOUT.size + 100 < long
    assert apply_transfer(short.way[1], FIRST.weights, LAYOUT).tobytes() == short.weights.tobytes()


def test_the_coarser_form_is_shorter():
    sizes = {}
    for form in FORMS:
        published = publish(FIRST, first() + step(1, 0.2), form, LAYOUT, rng())
        sizes[form] = min(len(data) for _, data in ways_to(published, [FIRST], LAYOUT))
    assert sizes["topk-8"] < sizes["f32"]


def test_an_exact_transfer_is_offered_only_where_few_weights_changed():
    published = publish(FIRST, first() + step(1, density=1.0), F32, LAYOUT, rng())
    assert ways_to(published, [FIRST], LAYOUT) == []


def test_for_weights_of_a_few_packets_there_is_no_other_way(monkeypatch):
    published = publish(FIRST, first() + step(1), F32, LAYOUT, rng())
    assert ways_to(published, [FIRST], LAYOUT)
    monkeypatch.setattr("nightjar.coordinator.learning.downlink.LEAST_WHOLE_BYTES", 4 * LAYOUT.size + 1)
    assert ways_to(published, [FIRST], LAYOUT) == []


def test_only_form_f32_has_no_residual():
    assert [keeps_residual(form) for form in FORMS] == [False, True]


def test_an_unknown_form_names_the_known_ones():
    with pytest.raises(ConfigError, match="f32, topk-8"):
        publish(FIRST, first().astype(np.float64), "zip", LAYOUT, rng())
