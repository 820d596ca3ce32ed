"""How a device gets its certificate, keeps it, shows it and renews it (docs/enrolment.md).

``cryptography`` is imported while a key is made, in short-lived processes; the running agent needs only ``ssl``.
"""
