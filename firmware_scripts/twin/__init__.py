"""A device without a device: our image in QEMU, with a real kernel, a charger with a plug, and somebody who types.

``machines`` words QEMU's command line (pure), ``process`` runs it, ``guest`` talks to the agent inside, ``battery`` and
``person`` do what hands would do, ``coordinator`` looks at the fleet from the other side, ``joining`` tells the story.
"""
