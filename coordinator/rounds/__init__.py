"""Rounds: which devices take part, what they are sent, and how a round ends. Pure.

Decides: which devices are selected and for which task; when a rejected device checks in again; whether a report is
valid; when a round begins, ends or is abandoned. Read :mod:`nightjar.coordinator.rounds.synchronous` first.

Does not decide: how updates become a model (``learning``), when a task opens a round (``tasks``).
"""
