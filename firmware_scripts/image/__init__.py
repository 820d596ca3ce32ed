"""Builds our own minimal Debian image from YAML layers: a boot and a root partition, built without root.

``recipe`` reads the layers (pure), ``debian`` fetches and configures Debian's packages into a cached root file system,
``early`` makes the initramfs, and ``disk`` adds our own files and puts the partitions into one file.
"""
