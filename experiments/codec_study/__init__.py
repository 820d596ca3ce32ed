"""Measures what update compression costs in learning: the basis of the default density, bits and error feedback.

``python -m nightjar.experiments.codec_study`` runs complete federated trainings of the ``tiny`` model in one process.
They differ only in the codec, and each is compared with the dense training after equally many rounds. Phones train with
the device's TFLite program and the agent's training loop, updates pass through the real codec and their size is
``len(frame)``, and the coordinator's own mean and optimizer update the model. There is no clock, transport or round
state machine here; see ``simulation.rounds``.
"""
