"""Differential privacy of each device: published versions tell little of whether a device took part. Pure.

- ``tree_noise``: the noise of DP-FTRL, by tree aggregation;
- ``noised_mean``: the mean of equal, clipped updates with that noise;
- ``adaptive_clipping``: a clip norm that follows the updates, by a noised count;
- ``accounting``: epsilon of a noise, and the noise of an epsilon; all figures are those of dp-accounting;
- ``ledger``: what a task promises, spends and assumes, and which settings contradict it.

A task runs for R rounds, and a device takes part at most once in any S rounds in a row (S is ``minimum_separation``).
Each tree of noise covers S rounds, so a device is in a tree at most once, and in at most R / S trees, rounded up.
"""
