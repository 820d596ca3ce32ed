"""The coordinator: samples devices, collects their reports, averages them and rolls out the next model.

All decisions are made in ``rounds``, ``learning``, ``tasks`` and ``versions``: state machines and arithmetic without
clocks, sockets, files or random sources. ``engine`` connects them to I/O, with one thread, one queue, and one
transaction per batch of events. ``storage``, ``mqtt`` and ``web`` do the I/O, behind the protocols in ``ports``, and
``records`` has the values that all of these share.
``enrolment`` issues certificates and decides which are valid. ``service`` assembles everything, and ``commands`` is the
command line. The coordinator never imports the agent.
"""

__version__ = "0.1.0"
