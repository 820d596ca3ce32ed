"""Makes the model with which a fleet starts, from public text, so that it names nobody (``models pretrain``)."""
