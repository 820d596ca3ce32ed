#!/usr/bin/env bash
# Makes .venv-agent-RUNTIME, an environment as a device has it: one TFLite runtime, no TensorFlow, and what the tests of
# the device side need; or does nothing if it is up to date. Prints its folder.
# Usage: scripts/agent_environment.sh ai-edge-litert | tflite-runtime
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    ai-edge-litert) lock=agent.txt; python=.venv/bin/python ;;
    tflite-runtime) lock=agent-tflite-runtime.txt; python=${TFLITE_PYTHON:-python3.11} ;;
    *) echo "usage: $0 ai-edge-litert | tflite-runtime" >&2; exit 2 ;;
esac
if ! command -v "$python" >/dev/null; then
    echo "agent_environment: $1 2.14 has wheels up to Python 3.11 only, and there is no $python here; set TFLITE_PYTHON" >&2
    exit 2
fi

environment=".venv-agent-$1"
stamp="$environment/.set-up-$(cat "requirements/locks/$lock" requirements/locks/agent-tests.txt | cksum | tr -d ' ')-nightjar"
if [ ! -f "$stamp" ]; then
    echo "agent_environment: making $environment (about a minute)" >&2
    "$python" -m venv --clear "$environment" >&2
    scripts/install_locked.sh "$environment/bin/python" "$lock" agent-tests.txt >&2
    # As an installed package: children do not look into the current folder.
    pwd > "$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nightjar.pth"
    touch "$stamp"
fi
for forbidden in tensorflow grpc; do
    if "$environment/bin/python" -c "import $forbidden" 2>/dev/null; then
        echo "agent_environment: $environment holds $forbidden, which a device must never need" >&2
        exit 1
    fi
done
echo "$environment"
