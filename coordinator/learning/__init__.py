"""Learning: how the updates of a cohort become the next weights. Pure arithmetic.

Decides: how much each update counts, what the server optimizer makes of their mean, and in which form the next weights
are published. Also adds up what devices measured of a version.

Does not decide: which reports take part (``rounds``), whether the result is good enough (``versions``).
"""
