"""What ``nightjar-agent`` can be asked beside ``run``: one module a command, each with a function that finds out.

``__main__`` has the options and the printing. Exit statuses of all of them:

======  =========================================================================================
0       done; the answer is yes: running, eligible, nothing wrong
2       the configuration or the command line cannot be used
3       something does not answer at the moment
4       the answer is no: not running, not eligible, a check failed, nothing was trained
======  =========================================================================================
"""

from __future__ import annotations

EXIT_NO = 4
"""The answer is no."""
