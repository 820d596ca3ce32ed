import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.resources import Disk, Memory, free_bytes


@pytest.mark.parametrize(("free", "answer"), [(200_000_000, Answer.YES), (199_999_999, Answer.NO)])
def test_disk(tmp_path, free, answer):
    reading = Disk(tmp_path, 200_000_000, lambda _folder: free)()[Condition.DISK_FREE]
    assert reading.value is answer
    if answer is Answer.NO:
        assert reading.reason == "less than 200 MB of disk free"


def test_a_folder_that_is_gone_is_unknown(tmp_path):
    assert Disk(tmp_path / "gone", 1)()[Condition.DISK_FREE].value is Answer.UNKNOWN
    assert free_bytes(tmp_path) > 0


@pytest.mark.parametrize(
    ("available_kb", "own", "answer"),
    [(300_000, 0, Answer.YES), (200_000, 0, Answer.NO), (200_000, 60_000_000, Answer.YES), ("much", 0, Answer.UNKNOWN)],
)
def test_memory_that_we_hold_counts_as_free(tree, available_kb, own, answer):
    tree.write("proc/meminfo", f"MemFree: 5 kB\nMemAvailable: {available_kb} kB")
    assert Memory(tree.root, 250_000_000, lambda: own)()[Condition.MEMORY_FREE].value is answer
