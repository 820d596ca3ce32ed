"""Tasks: what the fleet trains or evaluates, when, and for how long. Pure.

Decides: when a task opens a round, pauses and ends, for which task a device should check in again, and what operators
may request.

Does not decide: how a round runs (``rounds``).
"""
