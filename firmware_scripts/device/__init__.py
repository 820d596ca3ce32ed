"""The agent's updater on a device: installs releases of the agent, tries them, and rolls back bad ones.

The package is packed into one file, ``nightjar-device.pyz`` (:mod:`nightjar.firmware_scripts.device_program`). It needs
only the system's Python and its standard library, because it must work when no release does. ``releases`` makes pure
decisions; the other modules carry them out.
"""
