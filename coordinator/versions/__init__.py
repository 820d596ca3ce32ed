"""Versions of the model: candidate, canary, current, superseded, rolled back. Pure.

Decides: whether a version is worse than those before it, and which stage it moves to.

Does not decide: how it is made (``learning``); carrying a decision out is :mod:`coordinator.engine.rollout_service`.
"""
