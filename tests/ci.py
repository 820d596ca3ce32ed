"""Whether these tests run in continuous integration, where there is time for more examples and chance has no place."""

import os

IN_CI = os.environ.get("CI") == "true" or os.environ.get("NIGHTJAR_NO_SKIPS") == "1"
