"""Training sessions: what they are given, prepare, compute and hand over, and a device's part in secure sums."""
