import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.network import Network, default_interface
from nightjar.wire.errors import UnavailableError
from tests.edge_agent.shell.probes.fake_device import settled


@pytest.mark.parametrize(("metered", "answer"), [("yes", Answer.NO), ("no", Answer.YES)])
def test_the_configuration_has_the_first_word(tree, programs, metered, answer):
    reading = Network(tree.root, metered, programs)()[Condition.UNMETERED]
    assert (reading.value, reading.source) == (answer, "configuration")
    assert programs.asked == []


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("yes\n", Answer.NO),
        ("yes (guessed)\n", Answer.NO),
        ("no\n", Answer.YES),
        ("no (guessed)\n", Answer.YES),
    ],
)
def test_then_networkmanager(tree, programs, said, answer):
    programs.answers["nmcli"] = said
    reading = settled(Network(tree.root, "auto", programs))[Condition.UNMETERED]
    assert (reading.value, reading.source) == (answer, "NetworkManager")
    assert programs.asked[0][-1] == "eth0"


@pytest.mark.parametrize("said", ["unknown\n", "", UnavailableError("nmcli did not answer within 5 s")])
@pytest.mark.parametrize(
    ("interface", "answer"),
    [("eth0", Answer.YES), ("wlp2s0", Answer.YES), ("wwan0", Answer.NO), ("usb0", Answer.NO), ("tun0", Answer.UNKNOWN)],
)
def test_then_the_kind_of_interface(tree, programs, said, interface, answer):
    programs.answers["nmcli"] = said
    route = tree.root / "proc/net/route"
    route.write_text(route.read_text().replace("eth0", interface))
    reading = settled(Network(tree.root, "auto", programs))[Condition.UNMETERED]
    assert (reading.value, reading.source) == (answer, f"name of {interface}")


def test_what_was_said_of_another_interface_does_not_count(tree, programs):
    programs.answers["nmcli"] = "yes"
    network = Network(tree.root, "auto", programs, lambda: 0.0)
    assert settled(network)[Condition.UNMETERED].value is Answer.NO
    route = tree.root / "proc/net/route"
    route.write_text(route.read_text().replace("eth0", "wlan0"))
    assert network()[Condition.UNMETERED].source == "name of wlan0"


def test_the_best_default_route_counts(tree):
    route = tree.root / "proc/net/route"
    with route.open("a") as file:
        file.write("wwan0\t00000000\t0100A8C0\t0003\t0\t0\t50\t00000000\t0\t0\t0\n")
        file.write("docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n")
    assert default_interface(tree.root) == "wwan0"
    route.unlink()
    assert default_interface(tree.root) is None
    zero = "0" * 32
    tree.write("proc/net/ipv6_route", f"{zero} 00 {zero} 00 fe80{'0' * 28} 00000400 00000001 00000000 00000003 wlan0\n")
    assert default_interface(tree.root) == "wlan0"


def test_without_a_network_it_is_unknown(tree, programs):
    (tree.root / "proc/net/route").unlink()
    assert Network(tree.root, "auto", programs)()[Condition.UNMETERED].value is Answer.UNKNOWN
