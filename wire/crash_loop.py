"""When something that goes on ending the process is given up: a round's work, a session, a release on trial.

Each side counts durably, beside the thing itself, before it begins; the limit is the same everywhere.
"""

CRASHES_ALLOWED = 3
"""One may be an empty battery or somebody at the plug, two a coincidence; a fourth try would end like the third."""
