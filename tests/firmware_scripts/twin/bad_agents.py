"""Releases for a twin that are bad on purpose: small, for pip takes minutes there, and properly signed.

Real agents that are spoiled are in tests/firmware_scripts/bad_releases.py; what matters here is the device around them.
"""

from tests.firmware_scripts.parcels import small_bundle
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


def bad_bundle(folder, version, kind):
    """A bundle of the right owner; its agent is bad in the way that ``kind`` says."""
    return small_bundle(folder, PLATFORM, version, more={"edge_agent/__main__.py": AGENTS[kind]})
