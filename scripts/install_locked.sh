#!/usr/bin/env bash
# Installs what locks name, and nothing else: wheels only, each with a hash that the lock has (scripts/lock.sh writes them).
# Usage: scripts/install_locked.sh PYTHON NAME...   for the environment of PYTHON, with requirements/locks/NAME (agent.txt)
# Python compiles what is imported; to compile all, some 16,000 files, would take half of the time.
set -euo pipefail
python=$1
shift
locks=$(dirname "$0")/../requirements/locks
exec "$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --only-binary :all: --require-hashes \
    "${@/#/--requirement=$locks/}"
