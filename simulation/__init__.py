"""Runs the product on one machine: the demo with real processes, and rounds under a virtual clock with faults."""
