"""An agent's configuration on a device of files, and its folder with a person's messages."""

import json

import pytest
import structlog
from click.testing import CliRunner

from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.assembly import caps
from nightjar.edge_agent.config import load
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import DATABASE, own_folder
from tests.edge_agent.shell.probes.fake_device import Tree


class Place:
    """A configuration, the tree that it looks at, and its folder."""

    def __init__(self, tmp_path):
        self.tree = Tree(tmp_path / "root")
        self.tree.supply("AC", type="Mains", online=1)
        self.tree.supply("BAT0", type="Battery", status="Charging", capacity=80, temp=300)
        self.config = tmp_path / "agent.toml"
        self.data = tmp_path / "data"
        self.write()

    def write(self, conditions="", more=""):
        self.config.write_text(
            'device = "phone"\ndata_dir = "data"\ncoordinator_url = "http://127.0.0.1:9"\n[broker]\nport = 9\n'
            "[conditions]\nroot = 'root'\nask_logind = false\nminimum_free_disk_bytes = 0\n"
            f"minimum_free_memory_bytes = 0\npoll_s = 0.02\nhysteresis_s = 0.05\n{conditions}\n{more}"
        )

    def move_in(self, *texts):
        """What an agent that ran here leaves."""
        settings = load(self.config, {})
        with own_folder(settings.data_dir):
            database = Database(settings.data_dir / DATABASE, caps(settings), SystemClock())
            for text in texts:
                database.add(text)
            database.close()

    def run(self, command, *options, status=0):
        try:
            done = CliRunner().invoke(main, [command, "--config", str(self.config), *options])
        finally:
            # It logs to the runner's standard error, which is closed now.
            structlog.reset_defaults()
        assert done.exit_code == status, (done.exit_code, done.output)
        return done.stdout or done.stderr

    def json(self, command, *options, status=0):
        return json.loads(self.run(command, "--json", *options, status=status))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
