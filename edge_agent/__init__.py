"""The agent: what runs on a device. It trains where the text is, and sends a small update.

Pure cores in ``core``, seams in ``ports``, adapters in ``shell``, one thread that connects them in ``driver``. Imports
``wire`` and the pure modules of ``models``; never TensorFlow.
"""

__version__ = "0.1.0"
"""Said in every check-in, and compared with the manifest's minimum agent version."""
