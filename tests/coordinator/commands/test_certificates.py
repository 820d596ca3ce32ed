"""``authority`` goes by a clock only if the service would."""

from dataclasses import replace

from nightjar.coordinator.engine.clock import WallClock
from nightjar.host.trusted_time import ClockReading
from nightjar.wire.errors import ConfigError

DAY_S = 86_400.0


def test_an_authority_is_neither_made_nor_retired_by_a_clock_that_is_not_trusted(ask, run, site, monkeypatch):
    """Proven before: 20 years ahead no certificate seemed to be left of the former authority, and all were cut off."""
    now_s = WallClock().now_s()
    (former,) = ask("authority", "show")["authorities"]
    with site.transaction() as tx:
        tx.save_trusted_time(now_s)
    ahead = ClockReading(now_s + 7000 * DAY_S, 1.0, synchronised=False)
    right = replace(ahead, wall_s=now_s)

    def refused_while_ahead(command: str) -> bool:
        monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: ahead)
        status, _out, err = run("authority", command, "--config", site.config)
        monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: right)
        return status == ConfigError.exit_status and "more than a day after" in err

    assert refused_while_ahead("rotate")
    assert ask("authority", "show")["authorities"] == [former]
    assert len(ask("authority", "rotate")["authorities"]) == 2
    assert refused_while_ahead("retire")
    assert len(ask("authority", "show")["authorities"]) == 2
    assert ask("authority", "retire")["locked_out"] == []
