"""The crash-loop limit: when to give up work that keeps killing the process (a round, a session, a release on trial).

Each program counts the starts durably before it begins the work; the limit is the same everywhere.
"""

CRASHES_ALLOWED = 3
"""One crash may be an empty battery or a pulled plug, and two a coincidence; after three, a fourth try is pointless."""
