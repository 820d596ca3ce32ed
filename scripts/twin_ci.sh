#!/usr/bin/env bash
# The part of `make test-twin` for continuous integration: one virtual PC joins a fleet, trains, stops when it is
# unplugged, takes a good release over the air, and goes back from one that crashes, with a power cut in its trial.
# Whatever keeps it from running (a program, Debian's packages, time) is a failure: nothing is known of virtual devices
# then.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_s=${NIGHTJAR_TWIN_CI_S:-2400}

export PATH="$PATH:/usr/sbin:/sbin" NIGHTJAR_NO_SKIPS=1 NIGHTJAR_TWIN_BOARD=virt-amd64
status=0
# It interrupts the tests, which switch their machines off.
timeout --signal=INT --kill-after=60 "$limit_s" .venv/bin/python -m pytest -m twin --durations=0 \
    tests/firmware_scripts/twin/test_over_the_air.py "$@" || status=$?
case $status in
    0) ;;
    124 | 137) echo "twin: FAILED, it was not through after $limit_s s (NIGHTJAR_TWIN_CI_S)" >&2 ;;
    *) echo "twin: FAILED with status $status" >&2 ;;
esac
exit "$status"
