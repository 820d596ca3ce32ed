#!/usr/bin/env bash
# Fuzzes every decoder of bytes from the network, in an environment of its own: by mutations of valid messages, and by
# atheris (libFuzzer) where it has a wheel for this Python. Usage: scripts/fuzz.sh [--runs N] [--seed N], N a million.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-fuzz
stamp="$environment/.set-up-$(cat requirements/locks/fuzz.txt | cksum | tr -d ' ')"
if [ ! -f "$stamp" ]; then
    .venv/bin/python -m venv --clear "$environment"
    scripts/install_locked.sh "$environment/bin/python" fuzz.txt
    touch "$stamp"
fi

"$environment/bin/python" -m tests.fuzz.decoders "$@"
if "$environment/bin/python" -c 'import atheris' 2>/dev/null; then
    "$environment/bin/python" -m tests.fuzz.guided "$@"
else
    echo "fuzz: atheris has no wheel for $("$environment/bin/python" --version), so only mutations were tried" >&2
fi
