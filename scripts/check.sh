#!/usr/bin/env bash
# What must hold before every commit, in some minutes: format, lint, types, import contracts, shell, fast tests, doctests.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
packages=(wire host models edge_agent coordinator firmware_scripts simulation experiments benchmarks)

$bin/ruff format --check --quiet .
$bin/ruff check --quiet .
$bin/mypy
$bin/lint-imports
scripts/fast_tests.sh $bin/python -n 2 --dist loadgroup
$bin/python -m pytest --quiet --doctest-modules "${packages[@]}"
