"""Searches for updates that can be summed and still learn: linear compressors for secure sums.

``python -m nightjar.experiments.linear`` trains with each compressor in :mod:`~nightjar.experiments.linear.variants`. A
training is the laboratory's; only the cohort's mean is replaced by what a secure sum would give: each device's clipped
update is encoded, brought to the round's grid, added modulo 2^b, and the sum decoded. Updates are compared with dense
ones by the fall of the validation loss after equally many rounds. Masks and dropouts change nothing in a sum, so there
are none.

``coordinates``, ``low_rank``, ``sketch``, ``rotation`` and ``dense`` are the families of compressors.
"""
