"""The engine: one thread takes events from one queue, and one transaction holds what a batch of them changes.

Read :mod:`coordinator.engine.driver` first. A message goes through :mod:`~coordinator.engine.message_handler` into a
:mod:`~coordinator.engine.unit_of_work`, what follows through :mod:`~coordinator.engine.effect_runner`, and heavy work
to a process of its own (:mod:`~coordinator.engine.worker`), which does :mod:`~coordinator.engine.aggregation`.

Does not decide: it asks ``rounds``, ``tasks`` and ``versions``, and writes down what they say.
"""
