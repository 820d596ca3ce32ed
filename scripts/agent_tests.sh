#!/usr/bin/env bash
# Runs the tests of the device side with each TFLite runtime, in environments that hold it and no TensorFlow, on files
# that the coordinator's environment exports. Usage: scripts/agent_tests.sh [PYTEST OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

export NIGHTJAR_TEST_ARTIFACTS=build/test-artifacts
.venv/bin/python -m nightjar.models export --model tiny --corpus personas --passes 0 --seed 7 --out "$NIGHTJAR_TEST_ARTIFACTS"
# What never loads a runtime runs with ai-edge-litert's numpy in `make test` already; tflite-runtime's is an older one.
parts=(tests/edge_agent)
for runtime in ai-edge-litert tflite-runtime; do
    environment=$(scripts/agent_environment.sh "$runtime")
    "$environment/bin/python" -c 'from nightjar.edge_agent.shell.tflite import runtime_name; import numpy; print("agent_tests:", runtime_name(), "with numpy", numpy.__version__)'
    "$environment/bin/python" -m pytest -n 4 --dist loadgroup --no-loadscope-reorder \
        -m "not tensorflow and not browser and not long and not verify" "${parts[@]}" "$@"
    parts+=(tests/host tests/wire tests/fuzz/test_decoders.py) # its sequences run a coordinator, whose packages are not here
done
