#!/usr/bin/env bash
# Fuzzes every decoder of bytes from the network, in an environment of its own: by mutations of valid messages, and by
# atheris (libFuzzer) where it has a wheel for this Python. Usage: scripts/fuzz.sh [--runs N] [--seed N], N a million.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-fuzz
stamp="$environment/.set-up-$(cat scripts/fuzz.sh | cksum | tr -d ' ')"
if [ ! -f "$stamp" ]; then
    .venv/bin/python -m venv --clear "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "numpy>=1.26,<3" "msgspec>=0.19,<1"
    # Only a wheel: from source it would build the whole of LLVM.
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "atheris>=3" \
        || echo "fuzz: atheris has no wheel for $("$environment/bin/python" --version), so only mutations are tried" >&2
    touch "$stamp"
fi

"$environment/bin/python" -m tests.fuzz.decoders "$@"
if "$environment/bin/python" -c 'import atheris' 2>/dev/null; then
    "$environment/bin/python" -m tests.fuzz.guided "$@"
fi
