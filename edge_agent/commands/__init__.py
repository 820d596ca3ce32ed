"""The larger commands of ``nightjar-agent``: one module per command, each with a function that does the work.

``__main__`` handles options and output. Exit statuses of all commands:

======  =========================================================================================
0       done, or the answer is yes: running, eligible, nothing wrong
2       the configuration or the command line cannot be used
3       something does not answer at the moment
4       the answer is no: not running, not eligible, a check failed, nothing was trained
======  =========================================================================================
"""

from __future__ import annotations

EXIT_NO = 4
"""The answer is no."""
