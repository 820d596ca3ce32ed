"""Operating-system helpers shared by all programs (server, device, tools): one way of doing each thing.

The package decides how something is done on a machine, never what or when: it knows no rounds, messages or settings. It
imports the standard library, msgspec and structlog, and nothing heavier; only :mod:`nightjar.host.primitives`, which
nothing else here imports, needs ``cryptography``. :mod:`nightjar.host.files`, :mod:`nightjar.host.locks` and
:mod:`nightjar.host.unix_sockets` also run on a device's system Python, which has only the standard library.
"""
