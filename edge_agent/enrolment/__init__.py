"""Device enrolment: how a device gets, stores, presents and renews its certificate (docs/enrolment.md).

``cryptography`` is imported only to make a key, in short-lived processes; the running agent needs only ``ssl``.
"""
