"""Benchmarks of the product: each module prints a table, or JSON with ``--json``.

Shared machines are noisy, so results are medians, and alternatives are measured alternately in the same run.
"""
