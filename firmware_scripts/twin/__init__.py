"""A device emulated in QEMU: our image with a real kernel, a simulated charger and simulated typing.

``machines`` builds QEMU's command line (pure), ``process`` runs it, ``guest`` talks to the guest agent inside,
``person`` acts as the user, ``coordinator`` watches the fleet through its API, and ``joining`` follows a
device until it has joined.
"""
