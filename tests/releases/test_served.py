"""The real coordinator serves metadata and bundles of releases to enrolled devices, over TLS."""

import pytest
from click.testing import CliRunner

from nightjar.coordinator.__main__ import cli
from nightjar.edge_agent.enrolment.enrolling import enrol
from nightjar.wire.errors import UnavailableError
from tests.enrolment.world import World
from tests.releases.world import Device

pytestmark = pytest.mark.broker


def test_enrolled_devices_find_what_is_for_their_label_and_a_stranger_finds_nothing(tmp_path, owner):
    def release(*words):
        done = CliRunner().invoke(cli, ["release", *map(str, words), "--config", str(world.path)])
        assert done.exit_code == 0, done.output

    def device(name, *labels):
        made = Device(tmp_path / name, owner, world.config.url, name)
        enrol(made.folder / "data", world.claim(name, device=name, labels=labels))
        return made

    with World(tmp_path, "embedded") as world:
        release("add", owner.release("0.2.0"), "--metadata", owner.metadata, "--online-key", owner.online_key)
        porch, cellar = device("porch-01", "porch"), device("cellar-01")
        release("start", "0.2.0", "--share", 100, "--labels", "porch")
        assert cellar.look().text == "release 0.1.0 is what this device should have"
        assert porch.look().text == "release 0.2.0 was fetched and handed over"
        with pytest.raises(UnavailableError):
            Device(tmp_path / "stranger", owner, world.config.url).look()
