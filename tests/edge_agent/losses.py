"""A device whose conditions all hold, and every way in which it can lose one."""

from nightjar.wire.messages import DropoutCause
from tests.edge_agent.shell.probes.fake_device import Tree


def whole_device(root):
    """Everything holds."""
    tree = Tree(root)
    tree.supply("AC", type="Mains", online=1)
    tree.supply("BAT0", type="Battery", status="Charging", capacity=80, temp=300)
    tree.zone(0, 50_000)
    return tree


def lose(tree, life, what):
    """Take one condition away; ``life`` has the person's side: ``paused`` and ``typing``."""
    match what:
        case "wanted":
            life.paused = True
        case "unplugged":
            tree.supply("BAT0", status="Discharging")
            tree.supply("AC", online=0)
        case "battery":
            tree.supply("BAT0", capacity=12)
        case "typing":
            life.typing.note()
        case "busy":
            tree.write("proc/loadavg", "900.0 0 0 1/2 3")
        case "metered":
            route = tree.root / "proc/net/route"
            route.write_text(route.read_text().replace("eth0", "wwan0"))
        case "battery heat":
            tree.supply("BAT0", temp=460)
        case "processor heat":
            tree.zone(0, 81_000)
        case "memory":
            tree.write("proc/meminfo", "MemAvailable: 10 kB")


LOSSES = {
    "wanted": (DropoutCause.PAUSED, "learning is paused"),
    "unplugged": (DropoutCause.UNPLUGGED, "not charging"),
    "battery": (DropoutCause.LOW_BATTERY, "battery below 30 %"),
    "typing": (DropoutCause.IN_USE, "in use"),
    "busy": (DropoutCause.IN_USE, "busy with something else"),
    "metered": (DropoutCause.METERED, "the network is metered"),
    "battery heat": (DropoutCause.TOO_HOT, "too hot: above 45 C"),
    "processor heat": (DropoutCause.TOO_HOT, "too hot: above 80 C"),
    "memory": (DropoutCause.LOW_RESOURCES, "less than 10000 MB of memory free"),
}
