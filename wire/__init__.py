"""What the coordinator and the agent agree on, byte for byte.

Imports the standard library, numpy and msgspec only; performs no I/O. ``docs/wire-format.md`` is the normative text.
"""
