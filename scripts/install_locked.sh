#!/usr/bin/env bash
# Installs what locks name, and nothing else: wheels only, each with a hash that the lock has (scripts/lock.sh writes them).
# Usage: scripts/install_locked.sh PYTHON NAME...   for the environment of PYTHON, with requirements/locks/NAME (agent.txt)
set -euo pipefail
python=$1
shift
here=$(dirname "$0")
exec "$python" "$here/install_progress.py" "$python" "${@/#/$here/../requirements/locks/}"
