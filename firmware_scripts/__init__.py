"""From a blank card to a device: finding safe targets, writing images, reading them back.

``core/`` decides from values (pure), ``shell/`` looks at this machine and opens its disks, ``writing`` and ``fleet``
run a write over ports, ``commands/`` is the command line ``nightjar-firmware``.
"""

__version__ = "0.1.0"
