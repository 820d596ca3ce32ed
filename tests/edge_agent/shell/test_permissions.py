"""Files that go while the agent's folder is looked through; for those of another user see ``test_other_owner``."""

import itertools
import os
import shutil

import pytest

from nightjar.edge_agent.shell import permissions
from nightjar.host.put_away import notes


@pytest.fixture
def goes(monkeypatch):
    """Let a path be inaccessible, and go at one of the steps of looking at it."""

    def set_up(path, step):
        steps = itertools.count()

        def pass_step():
            if next(steps) == step:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

        def walk(folder, real=os.walk):
            for found in real(folder):
                if path.name in [*found[1], *found[2]]:
                    pass_step()
                yield found

        def access(asked, how, real=os.access):
            if asked != path:
                return real(asked, how)
            answer = how == os.R_OK and real(asked, how)
            pass_step()
            return answer

        monkeypatch.setattr(permissions.os, "walk", walk)
        monkeypatch.setattr(permissions.os, "access", access)

    return set_up


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("name", ["agent.db-wal", "agent.db-shm", "artifacts/model.part"])
def test_a_file_that_goes_meanwhile_is_passed_over(tmp_path, goes, name, step):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    (tmp_path / "agent.db").write_bytes(b"x")
    goes(path, step)
    permissions.take_back(tmp_path, None)
    assert not path.exists()
    assert (tmp_path / "agent.db").read_bytes() == b"x"
    assert notes(tmp_path) == []


@pytest.mark.parametrize("step", range(3))
def test_a_folder_that_goes_meanwhile_is_passed_over(tmp_path, goes, step):
    (tmp_path / "release").mkdir()
    goes(tmp_path / "release", step)
    permissions.take_back(tmp_path, None)
    assert list(tmp_path.iterdir()) == []
