#!/usr/bin/env bash
# Puts pip into an environment that was made without it, for Debian machines that lack python3-venv: the pip of this
# machine installs one (pip's configuration says from where), else apt fetches Debian's wheel of it, which needs no root
# (apt's configuration says from where, and it checks the signature).
# Usage: scripts/bootstrap_pip.sh ENVIRONMENT PYTHON
set -euo pipefail
environment=$(realpath "$1") python=$2

if "$python" -m pip --version >/dev/null 2>&1 && "$python" -m pip --python "$environment/bin/python" install --quiet \
    --require-hashes --requirement "$(dirname "$0")/../requirements/locks/pip.txt"; then
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if (cd "$work" && apt-get download -qq python3-pip-whl && dpkg-deb --extract python3-pip-whl_*.deb .); then
    wheel=$(echo "$work"/usr/share/python-wheels/pip-*.whl)
    "$environment/bin/python" "$wheel/pip" install --quiet --no-index "$wheel"
else
    echo "setup: this Python has no ensurepip, and pip could not be had otherwise: apt install python3-venv" >&2
    exit 2
fi
