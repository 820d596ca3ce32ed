"""Releases for a twin, properly signed, and small, for pip takes minutes there: one is good, the others are not.

Real agents that are spoiled are in tests/firmware_scripts/bad_releases.py; what matters here is the device around them.
"""

from tests.firmware_scripts.bad_releases import spoiled_bundle
from tests.firmware_scripts.parcels import keys, small_bundle
from tests.firmware_scripts.twin.fleet import PLATFORM

_SAYS = """\
import os, socket, sys, time

def say(words):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(words.encode(), os.environ["NOTIFY_SOCKET"])
"""
AGENTS = {
    "crashes": 'raise SystemExit("broken on purpose")\n',
    "hangs": "import time\n\ntime.sleep(10**6)\n",
    "cannot connect": _SAYS + "\nsay('READY=1\\nSTATUS=not connected to the broker')\ntime.sleep(100)\n",
    "fails the self-test": _SAYS
    + "\nif 'self-test' in sys.argv:\n    sys.exit('it cannot train, on purpose')\n"
    + "say('READY=1\\nSTATUS=connected to the broker')\ntime.sleep(100)\n",
}


def good_bundle(bundle, version, packages="pip-*.whl"):
    """A newer release of the agent in ``bundle``, which has to be on the device."""
    folder = bundle.parent / version
    return spoiled_bundle(bundle, folder, "borrows", version, keys(bundle.parent)[0], PLATFORM, packages=packages)


def foreign_bundle(bundle, owner, version):
    """The owner lists it, but another key than that of the devices signed it."""
    folder = bundle.parent / f"foreign-{version}"
    folder.mkdir()
    return small_bundle(folder, PLATFORM, version, root=owner.root)


def bad_bundle(bundle, owner, version, kind):
    """A bundle of the right owner; its agent is bad in the way that ``kind`` says."""
    files = {"nightjar/edge_agent/__main__.py": AGENTS[kind]}
    return small_bundle(bundle.parent, PLATFORM, version, more=files, root=owner.root)
