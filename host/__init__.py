"""What every program needs of the machine that it runs on: one way of doing each, for server, device and tools.

It decides how something is done on a machine, never what or when: it knows no round, no message and no setting by
name. It imports the standard library, msgspec and structlog, and nothing heavier. :mod:`host.files` and
:mod:`host.locks` also run on a device's own Python, where there is nothing but the standard library.
"""
