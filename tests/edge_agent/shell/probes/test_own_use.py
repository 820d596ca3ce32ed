import subprocess
import sys
from pathlib import Path

from nightjar.edge_agent.shell.probes.own_use import own_use
from tests.edge_agent.shell.probes.fake_device import Tree

STAT = "{pid} (a (strange) name) S 1 1 1 0 -1 4194560 1 2 3 4 {user} {system} {cu} {cs} 20 0 1 0 5 1000 {pages} 1"


def process(tree, pid, children="", user=0, system=0, cu=0, cs=0, pages=0):
    tree.write(f"proc/{pid}/stat", STAT.format(pid=pid, user=user, system=system, cu=cu, cs=cs, pages=pages))
    tree.write(f"proc/{pid}/task/7/children", children)


def test_children_and_their_children_count(tmp_path):
    tree = Tree(tmp_path)
    process(tree, "self", "11 12", user=100, system=50, pages=10)
    process(tree, "11", "13", user=200, cu=25, pages=5)
    process(tree, "12")
    process(tree, "13", cs=25, pages=1)
    tree.write("proc/14/stat", "")
    use = own_use(tmp_path)
    assert use.processor_s == 4.0
    assert use.resident_bytes == 16 * 4096


def test_a_child_that_works_is_seen_on_this_machine():
    before = own_use()
    command = [sys.executable, "-c", "x = b'x' * 60_000_000\nfor _ in range(10**7): pass\nprint('done')\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        during = own_use()
        child.communicate("\n")
    assert during.processor_s > before.processor_s
    assert during.resident_bytes > before.resident_bytes + 50_000_000


def test_a_child_that_ends_while_one_looks_is_no_fault(tmp_path, monkeypatch):
    glob = Path.glob

    def gone(self, pattern):
        if self.is_relative_to(tmp_path):
            raise FileNotFoundError
        return glob(self, pattern)

    monkeypatch.setattr(Path, "glob", gone)
    assert own_use(tmp_path).resident_bytes == 0
