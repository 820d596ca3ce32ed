"""The engine: a single-threaded event loop that handles each batch of events in one database transaction.

Read :mod:`nightjar.coordinator.engine.driver` first. :mod:`~nightjar.coordinator.engine.message_handler` turns messages
into events of rounds, and :mod:`~nightjar.coordinator.engine.round_service` says what happens to a round, in order. It
writes through a :mod:`~nightjar.coordinator.engine.unit_of_work`. :mod:`~nightjar.coordinator.engine.effect_runner`
carries out the resulting effects. Heavy work (:mod:`~nightjar.coordinator.engine.aggregation`) runs in a separate
process (:mod:`~nightjar.coordinator.engine.worker`).

The engine makes no decisions: it asks ``rounds``, ``tasks`` and ``versions``, and stores their answers.
"""
