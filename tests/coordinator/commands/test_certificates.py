"""``authority`` goes by a clock only if the service would."""

from dataclasses import replace

from nightjar.coordinator.engine.clock import WallClock
from nightjar.host.trusted_time import ClockReading
from nightjar.wire.errors import ConfigError

DAY_S = 86_400.0


def test_no_authority_is_retired_by_a_clock_that_is_not_trusted(ask, run, site, monkeypatch):
    """Proven before: 20 years ahead no certificate seemed to be left of the former authority, and all were cut off."""
    now_s = WallClock().now_s()
    with site.transaction() as tx:
        tx.save_trusted_time(now_s)
    ahead = ClockReading(now_s + 7000 * DAY_S, 1.0, synchronised=False)
    right = replace(ahead, wall_s=now_s)

    monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: ahead)
    assert len(ask("authority", "rotate")["authorities"]) == 2, "which has no date"
    status, _out, err = run("authority", "retire", "--config", site.config)
    assert status == ConfigError.exit_status
    assert "more than a day after" in err
    monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: right)
    assert len(ask("authority", "show")["authorities"]) == 2
    assert ask("authority", "retire")["locked_out"] == []
