"""Import this before numpy: it then works in the thread that asks, as the agent's process wants it.

A word's score is one product of a matrix and a vector. A pool of threads that wait for it by spinning costs more than
it saves, most of all beside training: 6 ms instead of 0.2 ms of processor time for a word on a busy two-core machine.
It also holds memory for each thread.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
