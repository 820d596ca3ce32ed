"""Versions of the model: candidate, canary, current, superseded, rolled back. Pure.

Decides: whether a version is worse than earlier ones, and which stage it moves to.

Does not decide: how a version is made (``learning``). :mod:`nightjar.coordinator.engine.rollout_service` carries
decisions out.
"""
