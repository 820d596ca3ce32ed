#!/usr/bin/env bash
# Asks for known advisories about every locked package, by pip-audit: exit 1 where there is one, 3 where nothing could be asked.
# AUDIT names another command that takes pip-audit's options.
set -euo pipefail
cd "$(dirname "$0")/.."

answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
audit=${AUDIT:-.venv/bin/uv tool run pip-audit}
status=0
for lock in requirements/locks/*.txt; do
    code=0
    # A lock has every package it needs, so nothing is resolved or installed.
    $audit --disable-pip --require-hashes --progress-spinner off --requirement "$lock" >"$answer" 2>&1 || code=$?
    if [ "$code" = 0 ]; then
        echo "audit: $lock: no advisory"
    elif grep -q '^Found [0-9]* known vulnerabilit' "$answer"; then
        cat "$answer"
        status=1
    else
        echo "audit: $lock could not be audited: $(tail -n 1 "$answer")" >&2
        exit 3
    fi
done
exit "$status"
