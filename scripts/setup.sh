#!/usr/bin/env bash
# Makes .venv with everything for one machine, or does nothing if it is up to date. Needs only Python 3.11 to 3.13:
# not even the python3-venv package of Debian, whose absence is the commonest reason for a first step to fail.
set -euo pipefail
cd "$(dirname "$0")/.."

TENSORFLOW=${TENSORFLOW:-tensorflow}
want="$(cat requirements/locks/*.txt scripts/setup.sh; echo "$TENSORFLOW")"
stamp=".venv/.set-up-$(printf '%s' "$want" | cksum | tr -d ' ')"
[ -f "$stamp" ] && exit 0

# TensorFlow has wheels for these versions of Python, so no other will do for the coordinator.
supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
candidates=${PYTHON:-python3 python3.13 python3.12 python3.11}
python=""
for candidate in $candidates; do
    if command -v "$candidate" >/dev/null && "$candidate" -c "$supported" 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "setup: needs Python 3.11, 3.12 or 3.13 (TensorFlow has no wheels for others); tried: $candidates" >&2
    echo "setup: install one, for example 'apt install python3', or name it: make setup PYTHON=/path/to/python3.12" >&2
    exit 2
fi

echo "setup: making .venv with $("$python" --version) (about 2 GB on disk; one to five minutes the first time)" >&2
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv --clear .venv
else
    "$python" -m venv --clear --without-pip .venv
    scripts/bootstrap_pip.sh .venv "$python"
fi
scripts/install_locked.sh .venv/bin/python build.txt agent.txt coordinator.txt "$TENSORFLOW.txt" firmware.txt simulation.txt dev.txt ray.txt jax.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch "$stamp"
echo "setup: done" >&2
