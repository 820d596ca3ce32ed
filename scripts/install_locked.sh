#!/usr/bin/env bash
# Installs what locks name, and nothing else: wheels only, each with a hash that the lock has (scripts/lock.sh writes them).
# Usage: scripts/install_locked.sh PYTHON NAME...   for the environment of PYTHON, with requirements/locks/NAME (agent.txt)
set -euo pipefail
python=$1
shift
locks=$(dirname "$0")/../requirements/locks
"$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --only-binary :all: --require-hashes \
    "${@/#/--requirement=$locks/}"
# pip would compile with one core. Templates in packages do not compile, and need not.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
PYTHONDONTWRITEBYTECODE='' "$python" -m compileall -q -j 0 "$site" >/dev/null || true
