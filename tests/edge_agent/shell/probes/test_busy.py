import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.busy import Busy, pressure_of_others

CORES = 4


class Moments:
    now_s = 0.0
    processor_s = 0.0


def busy(tree, moments=None):
    moments = moments or Moments()
    return Busy(
        tree.root,
        processor_s=lambda: moments.processor_s,
        now_s=lambda: moments.now_s,
        cores=CORES,
    )


def load(tree, value):
    tree.write("proc/loadavg", f"{value} 0.5 0.5 1/200 999")


@pytest.mark.parametrize(("per_core", "answer"), [(0.1, Answer.YES), (0.69, Answer.YES), (0.8, Answer.NO)])
def test_load(tree, per_core, answer):
    load(tree, per_core * CORES)
    assert busy(tree)()[Condition.IDLE].value is answer


@pytest.mark.parametrize("text", ["", "much"])
def test_without_a_load_average_it_is_unknown(tree, text):
    tree.write("proc/loadavg", text)
    assert busy(tree)()[Condition.IDLE].value is Answer.UNKNOWN


def test_our_own_training_is_not_somebody_elses_load(tree):
    moments = Moments()
    probe = busy(tree, moments)
    for second in range(300):
        moments.now_s, moments.processor_s = float(second), float(second) * CORES
        load(tree, CORES * (1 - 2.718 ** (-second / 60)))
        assert probe()[Condition.IDLE].value is Answer.YES
    load(tree, 2.0 * CORES)
    assert probe()[Condition.IDLE].value is Answer.NO


def pressure(tree, group, avg10):
    tree.write(f"sys/fs/cgroup/{group}/cpu.pressure", f"some avg10={avg10} avg60=0.0 avg300=0.0 total=1\nfull avg10=9")


OWN = "system.slice/nightjar-agent.service"


@pytest.mark.parametrize(
    ("groups", "answer"),
    [
        ({OWN: 99.0}, Answer.YES),  # we wait, because others work? nobody else waits, so nobody is in our way
        ({OWN: 99.0, "system.slice": 99.0}, Answer.YES),  # a parent's figure contains ours
        ({OWN: 99.0, "system.slice/web.service": 19.0}, Answer.YES),
        ({OWN: 0.0, "system.slice/web.service": 21.0}, Answer.NO),
        ({OWN: 0.0, "user.slice": 50.0, "init.scope": 0.0}, Answer.NO),
    ],
)
def test_what_others_wait_counts_and_what_we_wait_does_not(tree, groups, answer):
    tree.write("proc/self/cgroup", f"0::/{OWN}")
    pressure(tree, "init.scope", 0.0)
    for group, avg10 in groups.items():
        pressure(tree, group, avg10)
    load(tree, 100 * CORES)
    reading = busy(tree)()[Condition.IDLE]
    assert reading.value is answer
    assert reading.source == "pressure of other control groups"


@pytest.mark.parametrize("line", ["0::/", "4:memory:/x\n0::/", "", "0::/alone.service"])
def test_without_a_group_of_our_own_or_without_figures_the_load_counts(tree, line):
    tree.write("proc/self/cgroup", line)
    assert pressure_of_others(tree.root) is None
    load(tree, 10 * CORES)
    assert busy(tree)()[Condition.IDLE].source == "/proc/loadavg"
