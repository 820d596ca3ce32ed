#!/usr/bin/env bash
# Runs what takes longer than CI may, one after another: pages followed from nothing with their downloads, whole years,
# clusters. The last line is for docs/platforms.md. Usage: scripts/verify.sh [PYTEST OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
.venv/bin/python -m pytest -m verify --timeout 3600 --durations=0 "$@" || status=$?
[ "$status" = 0 ] && outcome=passed || outcome="FAILED with $status"
echo "verify: $outcome at $(git describe --always --dirty) on $(date -u +%F), $((SECONDS / 60)) min" >&2
exit "$status"
