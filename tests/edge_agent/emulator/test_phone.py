from edge_agent.emulator.phone import PlayedPhone


def test_a_clock_that_was_set_back_stays_at_the_first_moment():
    moments = []
    phone = PlayedPhone(lambda s: moments.append(s) or "state", 60.0, 2.0, 5000.0, lambda: 0.0)
    assert phone.state() == "state"
    assert moments == [7200.0]
