"""What an operator is told is compared with the faults that were thrown."""

import pytest

from nightjar.simulation.year.alerts import SETTLED_S, AlertBook


@pytest.fixture
def book():
    return AlertBook()


def test_a_fault_that_is_told_in_time_and_its_alert_are_in_order(book):
    book.began("broker", "unhealthy", owed_by_s=900.0)
    book.told({"unhealthy"}, 300.0)
    book.ended("broker", "unhealthy", 3600.0)
    book.told(set(), 3700.0)
    assert (book.without_alert, book.without_fault) == ([], [])


def test_a_fault_that_nobody_is_told_of_is_counted(book):
    book.began("broker", "unhealthy", owed_by_s=900.0)
    book.told(set(), 900.0)
    assert book.without_alert == ["broker: no unhealthy"]


def test_a_fault_that_ends_before_anybody_is_told_is_counted_once(book):
    book.began("broker", "unhealthy", owed_by_s=900.0)
    book.ended("broker", "unhealthy", 600.0)
    book.told(set(), 900.0)
    assert book.without_alert == ["broker: no unhealthy"]


def test_an_alert_without_a_fault_is_counted_once_as_long_as_it_lasts(book):
    for at_s in (300.0, 600.0, 900.0):
        book.told({"unhealthy"}, at_s)
    assert book.without_fault == ["unhealthy at 300"]
    book.told(set(), 1200.0)
    book.told({"unhealthy"}, 1500.0)
    assert len(book.without_fault) == 2


def test_an_alert_that_outlasts_its_fault_for_long_is_counted_when_it_comes_again(book):
    book.began("broker", "unhealthy", owed_by_s=None)
    book.ended("broker", "unhealthy", 600.0)
    book.told({"unhealthy"}, 700.0)
    book.told(set(), 800.0)
    book.told({"unhealthy"}, 700.0 + SETTLED_S)
    assert book.without_fault == [f"unhealthy at {700.0 + SETTLED_S:.0f}"]


def test_a_second_fault_under_the_same_alert_owes_nothing(book):
    book.began("drawer 1", "expiring", owed_by_s=900.0)
    book.told({"expiring"}, 300.0)
    book.began("drawer 2", "expiring", owed_by_s=1200.0)
    book.told(set(), 1300.0)
    assert book.without_alert == []
