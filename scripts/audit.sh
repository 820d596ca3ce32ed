#!/usr/bin/env bash
# Asks for known advisories about every locked package, by pip-audit: exit 1 where there is one, else 3 where one or more
# could not be asked about.
# AUDIT names another command that takes pip-audit's options.
set -euo pipefail
cd "$(dirname "$0")/.."

answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
audit=${AUDIT:-.venv/bin/uv tool run pip-audit}
found="" unknown=""
for lock in requirements/locks/*.txt; do
    code=0
    # A lock has every package it needs, so nothing is resolved or installed. Strict: what is skipped was not audited.
    $audit --strict --disable-pip --require-hashes --progress-spinner off --requirement "$lock" >"$answer" 2>&1 || code=$?
    if [ "$code" = 0 ]; then
        echo "audit: $lock: no advisory"
    elif grep -q '^Found [0-9]* known vulnerabilit' "$answer"; then
        cat "$answer"
        found=yes
    else
        echo "audit: $lock could not be audited: $(tail -n 1 "$answer")" >&2
        unknown=yes
    fi
done
[ -z "$found" ] || exit 1
[ -z "$unknown" ] || exit 3
