"""The book of reports notices what a coordinator must not do."""

import pytest

from nightjar.coordinator.records.jobs import AggregationJob, ReportFile
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.settings import StrategyConfig
from nightjar.simulation.year.reports import ReportBook, missed
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import CodecChoice, Receipt, Verdict


def receipt(device, number, attempt=1, verdict=Verdict.ACCEPTED):
    topic = topics.down(Population("year"), DeviceId(device), "receipt")
    return topic, messages.encode(Receipt(round=number, attempt=attempt, verdict=verdict, retry_after_s=60.0))


def job(number, *reports):
    return AggregationJob(
        number,
        "0" * 64,
        tuple(ReportFile(DeviceId(device), attempt, 1) for device, attempt in reports),
        1,
        CodecChoice(name="topk-4", density=0.01),
        StrategyConfig().choice(),
        None,
        None,
    )


@pytest.fixture
def book():
    return ReportBook()


def test_a_report_in_the_mean_is_neither_lost_nor_counted_twice(book):
    book.published(*receipt("a", 1))
    book.published(*receipt("a", 1))
    book.averaged(job(1, ("a", 1)))
    book.over(1, Phase.COMMITTED, 900.0)
    assert (book.lost, book.twice, book.commits_s) == ([], [], [900.0])
    assert book.accepted_by_device == {"a": 1}


def test_an_accepted_report_that_is_not_in_the_mean_is_lost(book):
    book.published(*receipt("a", 1))
    book.published(*receipt("b", 1))
    book.averaged(job(1, ("a", 1)))
    book.over(1, Phase.COMMITTED, 900.0)
    assert book.lost == [(1, "b", 1)]


def test_a_report_that_is_accepted_after_its_round_is_lost(book):
    book.averaged(job(1, ("a", 1)))
    book.over(1, Phase.COMMITTED, 900.0)
    book.published(*receipt("b", 1))
    assert book.lost == [(1, "b", 1)]


def test_a_late_report_is_not_lost(book):
    book.published(*receipt("a", 1, verdict=Verdict.LATE))
    book.over(1, Phase.COMMITTED, 900.0)
    assert book.lost == []


def test_two_attempts_of_a_device_in_a_mean_are_counted_twice(book):
    book.averaged(job(1, ("a", 1), ("a", 2)))
    book.over(1, Phase.COMMITTED, 900.0)
    assert book.twice == [(1, "a")]


def test_a_job_that_is_done_again_counts_once(book):
    book.published(*receipt("a", 1))
    book.averaged(job(1, ("a", 1)))
    book.averaged(job(1, ("a", 1)))
    book.over(1, Phase.COMMITTED, 900.0)
    assert (book.lost, book.twice) == ([], [])


def test_reports_of_an_abandoned_round_are_not_lost(book):
    book.published(*receipt("a", 1))
    book.over(1, Phase.ABANDONED, 900.0)
    assert (book.lost, book.abandoned) == ([], 1)


def test_the_book_forgets_old_rounds(book):
    for number in range(1, 200):
        book.published(*receipt("a", number))
        book.averaged(job(number, ("a", 1)))
        book.over(number, Phase.COMMITTED, 900.0 * number)
    assert len(book._accepted) < 60
    assert book.lost == []


@pytest.mark.parametrize(
    ("ends_s", "until_s", "count"),
    [
        ([900.0 * n for n in range(96)], 86_400.0, 0),
        ([850.0 * n for n in range(1, 102)], 86_400.0, 0),
        ([1100.0 * n for n in range(79)], 86_400.0, 17),
        ([], 86_400.0, 96),
        ([900.0, 8100.0], 8999.0, 7),
    ],
)
def test_quarters_of_an_hour_without_a_round_are_missed(ends_s, until_s, count):
    assert missed(ends_s, until_s) == count
