"""Our own minimal Debian image: layers in YAML, one boot and one root partition, made by an ordinary user.

``recipe`` reads the layers (pure), ``debian`` fetches and configures Debian's packages into a cached root file system,
``overlay`` and ``early`` make what is ours, ``disk`` puts the partitions into one file.
"""
