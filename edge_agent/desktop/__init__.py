"""Typing in every program of a Linux desktop: an IBus engine that asks the suggester over its Unix socket.

``typing_state`` holds what the engine decides, ``fields`` what is allowed where, ``settings`` the person's choices;
``suggester_line`` and ``engine`` are the adapters. The package imports the standard library and, in ``engine`` alone,
Debian's ``gi``: the system's Python runs it, which has no other package (docs/ibus.md).
"""
