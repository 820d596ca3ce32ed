"""Two silos that train one model on MNIST: alone, pooled, and federated (``python -m nightjar.experiments.silos``).

A task as hospitals and banks run it: real coordinator and agents as processes, enrolled, with mutual TLS.
"""
