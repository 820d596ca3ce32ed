"""A device's store in a year is a file that power cuts and bad cards leave as they find it."""

import numpy as np
import pytest

from nightjar.edge_agent.core.lifecycle import STARTING
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.stored import Change, NewReport
from nightjar.host.system_clock import TrustedClock
from nightjar.host.trusted_time import ClockReading
from nightjar.simulation.year.device import MESSAGES, CardStore, YearClock
from nightjar.wire.frame import Report, encode_report

NOW_S = 1.7e9


def frame():
    return encode_report(Report(1, 1, 1, "0" * 16, 0, 1, 1, 1.0, 1.0, b"x"))


@pytest.fixture
def produced():
    return []


@pytest.fixture
def store(tmp_path, produced):
    trusted = TrustedClock(None, lambda _: None, lambda: ClockReading(NOW_S, 0.0, synchronised=True))
    return CardStore(tmp_path, YearClock(lambda: 0.0, lambda: NOW_S, trusted), lambda: None, produced.append)


def test_a_power_cut_keeps_what_was_committed(store, produced):
    store.start(NOW_S)
    store.commit(Change(STARTING, report=NewReport(Parcel(1, 1, 1), frame())))
    store.lose_power(np.random.default_rng(1))
    assert store.start(NOW_S) == ""
    assert store.load().parcel == Parcel(1, 1, 1)
    assert [each.parcel for each in produced] == [Parcel(1, 1, 1)]
    assert store.count() == len(MESSAGES)


def test_a_damaged_page_is_mended_and_told(store):
    store.start(NOW_S)
    store.commit(Change(STARTING))
    store.lose_power(np.random.default_rng(1))
    for seed in range(20):
        store.damage_page(np.random.default_rng(seed))
        if store.start(NOW_S):
            break
    assert store.count() >= 0
    assert "agent.db was put away" in store.notice
