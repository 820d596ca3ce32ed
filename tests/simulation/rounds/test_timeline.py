from nightjar.simulation.rounds.timeline import Timeline


def test_calls_run_in_the_order_of_their_time_and_then_of_their_planning():
    timeline, seen = Timeline(), []
    timeline.at(2.0, lambda: seen.append("later"))
    timeline.at(1.0, lambda: seen.append("first"))
    timeline.at(1.0, lambda: seen.append("second"))
    assert not timeline.run(lambda: False, limit_s=10.0)
    assert seen == ["first", "second", "later"]


def test_time_never_goes_back():
    timeline, seen = Timeline(), []
    timeline.at(5.0, lambda: timeline.at(1.0, lambda: seen.append(timeline.now_s)))
    timeline.run(lambda: bool(seen), limit_s=10.0)
    assert seen == [5.0]


def test_what_lies_beyond_the_limit_waits_for_the_next_run():
    timeline, seen = Timeline(), []
    timeline.after(20.0, lambda: seen.append(timeline.now_s))
    timeline.run(lambda: False, limit_s=10.0)
    assert not seen
    timeline.run(lambda: False, limit_s=30.0)
    assert seen == [20.0]
