import os
import subprocess
import sys


def test_the_agent_tells_numpy_to_use_one_thread_before_numpy_is_there():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import edge_agent.__main__, edge_agent.assembly, os, sys; names = list(sys.modules); "
            "print(os.environ['OPENBLAS_NUM_THREADS'], names.index('edge_agent.one_thread') < names.index('numpy'))",
        ],
        env={name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["1", "True"]
