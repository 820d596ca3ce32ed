#!/usr/bin/env bash
# Runs the tests of the device side in an environment of its own that holds one TFLite runtime and no TensorFlow, on
# files that the coordinator's environment exports. Usage: scripts/agent_tests.sh ai-edge-litert | tflite-runtime
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$(scripts/agent_environment.sh "${1:-}")
artifacts=build/test-artifacts
.venv/bin/python -m models export --model tiny --corpus personas --passes 0 --seed 7 --out "$artifacts"
"$environment/bin/python" -c 'from edge_agent.shell.tflite import runtime_name; import numpy; print("agent_tests:", runtime_name(), "with numpy", numpy.__version__)'
NIGHTJAR_TEST_ARTIFACTS="$artifacts" "$environment/bin/python" -m pytest -n 4 --dist loadgroup --no-loadscope-reorder \
    -m "not tensorflow and not browser and not long" tests/edge_agent tests/host tests/wire tests/fuzz "${@:2}"
