#!/usr/bin/env bash
# Runs the tests of the device side in an environment of its own that holds one TFLite runtime and no TensorFlow, on
# files that the coordinator's environment exports. Usage: scripts/agent_tests.sh ai-edge-litert | tflite-runtime
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    ai-edge-litert) requirements=requirements/agent.txt; python=.venv/bin/python ;;
    tflite-runtime) requirements=requirements/agent-tflite-runtime.txt; python=${TFLITE_PYTHON:-python3.11} ;;
    *) echo "usage: $0 ai-edge-litert | tflite-runtime" >&2; exit 2 ;;
esac
if ! command -v "$python" >/dev/null; then
    echo "agent_tests: $1 2.14 has wheels up to Python 3.11 only, and there is no $python here; set TFLITE_PYTHON" >&2
    exit 2
fi

artifacts=build/test-artifacts
.venv/bin/python -m models export --model tiny --corpus personas --seed 7 --out "$artifacts"

environment=".venv-agent-$1"
stamp="$environment/.set-up-$(cat "$requirements" requirements/agent-tests.txt | cksum | tr -d ' ')"
if [ ! -f "$stamp" ]; then
    "$python" -m venv --clear "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" -r requirements/agent-tests.txt
    touch "$stamp"
fi
for forbidden in tensorflow grpc; do
    if "$environment/bin/python" -c "import $forbidden" 2>/dev/null; then
        echo "agent_tests: $environment holds $forbidden, which a device must never need" >&2
        exit 1
    fi
done
"$environment/bin/python" -c 'from edge_agent.shell.tflite import runtime_name; import numpy; print("agent_tests:", runtime_name(), "with numpy", numpy.__version__)'
NIGHTJAR_TEST_ARTIFACTS="$artifacts" "$environment/bin/python" -m pytest tests/edge_agent tests/wire -m "not tensorflow and not browser" "${@:2}"
