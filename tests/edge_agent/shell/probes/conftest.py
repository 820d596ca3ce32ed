import pytest

from tests.edge_agent.shell.probes.fake_device import Programs, Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def programs():
    return Programs()
