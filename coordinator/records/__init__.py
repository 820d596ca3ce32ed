"""Records: values that the engine, its ports, the adapters, the web pages and the commands share.

:mod:`~nightjar.coordinator.records.inbox` has the events that reach the engine,
:mod:`~nightjar.coordinator.records.effects` what it does about them after a commit, and
:mod:`~nightjar.coordinator.records.jobs` what it has its worker do. ``rounds`` and ``versions`` have what is stored,
and ``snapshot`` what of it is kept in memory.

They decide nothing, and nothing here reads or writes.
"""
