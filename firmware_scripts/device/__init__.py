"""What runs on a device beside the agent: puts releases of the agent in place, tries them, and takes bad ones back.

Everything here is packed into one file, ``nightjar-device.pyz`` (:mod:`firmware_scripts.device_program`), and runs with
the Python of the system and its standard library alone, because it has to work while no release does. ``releases``
decides (pure), the other modules do.
"""
