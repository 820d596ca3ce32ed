"""Turns a blank card into a device: finds safe targets, writes images and reads them back.

``core/`` makes pure decisions, ``shell/`` inspects this machine and opens its disks, ``writing`` and ``fleet`` run a
write through ports, and ``commands/`` is the command line ``nightjar-firmware``.
"""

__version__ = "0.1.0"
