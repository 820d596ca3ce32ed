#!/usr/bin/env bash
# Runs the tests of the device side with each TFLite runtime, in environments that hold it and no TensorFlow, on files
# that the coordinator's environment exports. Usage: scripts/agent_tests.sh [PYTEST OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

export NIGHTJAR_TEST_ARTIFACTS=build/test-artifacts
.venv/bin/python -m nightjar.models export --model tiny --corpus personas --passes 0 --seed 7 --out "$NIGHTJAR_TEST_ARTIFACTS"
# Not here: what types in real programs, and what fills the disk at each write. They take long, run in `make test`, and
# ask no more of a runtime than the others do. What is slow and never loads a runtime, and what lies outside the agent,
# runs with tflite-runtime's older numpy only: that of ai-edge-litert is the one of `make test`.
parts=(tests/edge_agent)
but="and (tflite or not slow)"
long=(--ignore=tests/edge_agent/desktop/test_real_programs.py --ignore=tests/edge_agent/test_full_disk_start.py)
for runtime in ai-edge-litert tflite-runtime; do
    environment=$(scripts/agent_environment.sh "$runtime")
    "$environment/bin/python" -c 'from nightjar.edge_agent.shell.tflite import runtime_name; import numpy; print("agent_tests:", runtime_name(), "with numpy", numpy.__version__)'
    "$environment/bin/python" -m pytest -n 4 --dist loadgroup --no-loadscope-reorder \
        -m "not tensorflow and not browser and not long and not verify $but" "${parts[@]}" "${long[@]}" "$@"
    but=""
    parts+=(tests/host tests/wire tests/fuzz/test_decoders.py) # its sequences run a coordinator, whose packages are not here
done
