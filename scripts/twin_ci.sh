#!/usr/bin/env bash
# The part of `make test-twin` for continuous integration: a virtual PC joins a fleet, trains, stops when it is unplugged;
# and takes a release back that crashes, with its power cut in between. Debian's packages are fetched once, then cached.
# Where it cannot run (programs, a mirror, time) it says so and is no failure; a test that fails is one.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_s=${NIGHTJAR_TWIN_CI_S:-900}

PATH="$PATH:/usr/sbin:/sbin"
not_run() { echo "twin: NOT RUN, nothing is known of virtual devices: $*"; exit 0; }
missing=()
for program in qemu-system-x86_64 mmdebstrap fakeroot mkfs.vfat mcopy mke2fs sfdisk make gcc; do
    command -v "$program" >/dev/null || missing+=("$program")
done
compgen -G '/usr/lib/linux-kbuild-*' >/dev/null || missing+=(linux-kbuild-6.1)
[ ${#missing[@]} = 0 ] || not_run "this machine has no ${missing[*]}"
.venv/bin/python - <<'PYTHON' || not_run "Debian's mirror does not answer"
import urllib.request
urllib.request.urlopen("http://deb.debian.org/debian/dists/bookworm/InRelease", timeout=30).close()
PYTHON

here=tests/firmware_scripts/twin
status=0
# It interrupts the tests, which switch their machines off.
NIGHTJAR_TWIN_BOARD=virt-amd64 timeout --signal=INT --kill-after=60 "$limit_s" .venv/bin/python -m pytest -m twin \
    --durations=0 "$here/test_joining_device.py" \
    "$here/test_bad_releases.py::test_a_release_that_crashes_also_after_a_power_cut_in_its_trial" || status=$?
case $status in 124 | 137) not_run "it takes more than $limit_s s here (NIGHTJAR_TWIN_CI_S)" ;; esac
exit "$status"
