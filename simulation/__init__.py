"""The product's own processes and cores, run on one machine: the demo now, faults under a virtual clock later."""
