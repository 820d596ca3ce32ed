"""Rounds: which devices take part, what they are sent, and how a round ends. Pure.

Decides: who is selected, for which task, and when a device that is not needed comes back; whether a report is what was
asked for; when a round begins, ends and is abandoned. Read :mod:`coordinator.rounds.round` first.

Does not decide: how updates become a model (``learning``), when a task wants a round (``tasks``).
"""
