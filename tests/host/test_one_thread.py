import os
import subprocess
import sys


def test_the_agent_tells_numpy_to_use_one_thread_before_numpy_is_there():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import nightjar.edge_agent.__main__, nightjar.edge_agent.assembly, os, sys\n"
            "names = list(sys.modules)\n"
            "first = names.index('nightjar.host.one_thread') < names.index('numpy')\n"
            "print(os.environ['OPENBLAS_NUM_THREADS'], first)",
        ],
        env={name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["1", "True"]
