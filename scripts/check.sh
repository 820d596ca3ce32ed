#!/usr/bin/env bash
# What must hold before every commit, in a minute: format, lint, types, import contracts, doctests, and the fast tests
# of what decides something and of the wire. `make test` has the rest; with --without-tests it has them all.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
packages=(nightjar/{wire,host,models,edge_agent,coordinator,firmware_scripts,simulation,experiments,benchmarks})
decisions=(tests/wire tests/host tests/edge_agent/core tests/edge_agent/*.py tests/test_*.py
    tests/coordinator/{rounds,learning,tasks,versions,engine})

[ "${1:-}" != --without-tests ] || decisions=()

$bin/ruff format --check --quiet .
$bin/ruff check --quiet .
$bin/mypy
$bin/lint-imports
# The IBus engine runs in the system's Python: it imports what this environment lacks.
scripts/fast_tests.sh $bin/python -n 2 --dist loadgroup --doctest-modules --ignore-glob="*/desktop/engine.py" "${decisions[@]}" "${packages[@]}"
