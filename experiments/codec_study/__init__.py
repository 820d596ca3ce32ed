"""What compression costs in learning: the measurement behind the default density, bits and error feedback.

``python -m experiments.codec_study`` runs whole federated trainings of the ``tiny`` model in one process, each with
another codec and everything else alike, and compares them with the dense one at equal rounds. Phones train with the
device's TFLite program and the agent's training loop, updates go through the real codec and are counted as
``len(frame)``, and the coordinator's own mean and optimizer move the model. There is no clock, transport or round
machinery here: those are ``simulation.rounds``.
"""
