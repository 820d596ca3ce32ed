"""Learning: turns the updates of a cohort into the next weights. Pure arithmetic.

Decides: how much each update counts, how the server optimizer applies their mean, and in which form the next weights
are published. Also adds up the on-device metrics of a version.

Does not decide: which reports take part (``rounds``), or whether the result is good enough (``versions``).
"""
