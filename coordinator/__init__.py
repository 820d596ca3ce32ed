"""The coordinator: samples devices, collects their reports, averages them and rolls the next model out.

What is decided lies in ``rounds``, ``learning``, ``tasks`` and ``versions``: state machines and arithmetic without
clock, socket, file or random source. ``engine`` joins them to the world: one thread, one queue, one transaction for
what a batch of events changes. ``storage``, ``mqtt`` and ``web`` are that world, behind the protocols of ``ports``.
``enrolment`` decides whose certificate is valid, and issues certificates. ``service`` puts it all together and
``commands`` is the command line. The agent is never imported.
"""

__version__ = "0.1.0"
