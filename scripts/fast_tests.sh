#!/usr/bin/env bash
# The tests that need no broker, TFLite runtime, TensorFlow, browser or virtual device. Usage: scripts/fast_tests.sh PYTHON [OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
exec "$1" -m pytest --quiet -m "not slow and not long and not broker and not tflite and not tensorflow and not browser and not twin and not verify" "${@:2}"
