"""The laboratory: federated training at full speed on one machine, without network and waiting.

It uses the product's own parts: the device's TFLite program and training loop, the codecs, and the
coordinator's averaging and server optimizers. It decides who takes part and what is measured, and records it. It does
not model time, dropouts or faults; those are :mod:`nightjar.simulation.rounds`.

``experiment`` is the file, ``people`` the split of a corpus, ``clients`` the work of one device, ``executor`` runs many
of them, ``training`` is the loop over rounds, ``references`` are the central model and the trigram, ``command`` the
command line.
"""
