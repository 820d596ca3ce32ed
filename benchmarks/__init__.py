"""What the design's numbers are held against: each module prints a table, and JSON with ``--json``.

These machines are noisy, so figures are medians, and what is compared is measured in turn in the same run.
"""
