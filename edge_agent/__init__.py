"""The agent that runs on a device. It trains on local text and sends a small update.

``core`` holds the pure logic, ``ports`` the interfaces and ``shell`` the adapters; ``driver`` connects them in one
thread, with one ``inbox``. It uses ``link``, ``session`` and ``upkeep``, which import no adapter either. The package
imports ``wire`` and the pure modules of ``models``, never TensorFlow.
"""

__version__ = "0.1.0"
"""Sent in every check-in, and compared with the manifest's minimum agent version."""
