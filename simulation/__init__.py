"""The product's own processes and cores, run on one machine: the demo, and rounds under a virtual clock with faults."""
