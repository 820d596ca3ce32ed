"""Tasks: what the fleet is to do, when, and until when. Pure.

Decides: when a task opens a round, pauses and ends, and what operators may ask for.

Does not decide: how a round goes (``rounds``).
"""
