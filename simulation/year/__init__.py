"""A year of a fleet under a virtual clock: the product's database, files, certificates and device stores.

``rounds`` keeps its tables in memory, to try many combinations of faults in seconds. This package runs the same drivers
for a long time on what a year wears out or fills: the coordinator's real database and its files, the devices' real
database files, and real certificates. ``docs/simulation.md`` lists what is replaced.
"""
