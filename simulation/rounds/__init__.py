"""Rounds under a virtual clock: real coordinator, real agents, seeded faults, and an independent observer."""
