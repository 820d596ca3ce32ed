"""The wire protocol between coordinator and agent, byte for byte.

Imports the standard library, numpy and msgspec only; performs no I/O. ``docs/wire-format.md`` is the normative
specification.
"""
