#!/bin/sh
# Puts Nightjar's agent onto an Android phone, from the folder that this script lies in. POSIX sh, run in Termux:
#
#   sh termux-install.sh [--dry-run]
#   sh termux-install.sh --uninstall [--with-data] [--dry-run]
#
# Termux has another C library than the agent's packages are made for, so the agent lives in a Debian inside of Termux
# (proot-distro; no root needed). Three apps from F-Droid, all from there: Termux, Termux:API (is the phone charging?)
# and Termux:Boot (starts the agent with the phone; open it once). Run it as often as you like.
# Ends with 0 done, 2 something for you to mend, 3 something is missing or broken.
set -eu

say() { printf 'nightjar: %s\n' "$*"; }
fail() { status=$1; shift; printf 'nightjar: %s\n' "$*" >&2; exit "$status"; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dry_run='' uninstall='' with_data=''
for option in "$@"; do
    case $option in
        --dry-run) dry_run=yes ;;
        --uninstall) uninstall=yes ;;
        --with-data) with_data=--with-data ;;
        *) fail 2 "unknown option $option: --dry-run, --uninstall, --with-data" ;;
    esac
done
run() { if [ -n "$dry_run" ]; then say "would run: $*"; else "$@"; fi; }

case ${PREFIX-} in
    */com.termux/*) ;;
    *) fail 2 "this runs in Termux on a phone, and this is none" ;;
esac
[ "$(uname -m)" = aarch64 ] || fail 2 "this phone's processor is $(uname -m): there are packages for aarch64 only"

boot=$HOME/.termux/boot/nightjar
debian() { run proot-distro login debian --bind "$here:/mnt/nightjar" -- "$@"; }

if [ -n "$uninstall" ]; then
    run rm -f "$boot"
    # shellcheck disable=SC2086 # one option or none
    debian sh /mnt/nightjar/install.sh --uninstall $with_data
    say "uninstalled; the Debian itself stays: proot-distro remove debian"
    exit 0
fi

for name in bundle.tar bundle.pub install.sh nightjar-device.pyz agent.toml; do
    [ -s "$here/$name" ] || fail 2 "$here/$name is missing: push it again (nightjar-firmware android push)"
done
run pkg install -y proot-distro termux-api
# Without the app Termux:API the command of that name waits for ever.
if [ -z "$dry_run" ] && ! timeout 15 termux-battery-status >/dev/null; then
    fail 3 "Termux:API does not answer: install the app from F-Droid, and allow it to run in the background"
fi
if ! [ -d "$PREFIX/var/lib/proot-distro/installed-rootfs/debian" ]; then
    run proot-distro install debian
fi
debian sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 openssl libstdc++6 ca-certificates'
# No systemd here, so nothing could be tried and taken back: what is there makes room, settings and data stay.
debian sh -c '[ ! -e /opt/nightjar ] || sh /mnt/nightjar/install.sh --uninstall'
debian sh /mnt/nightjar/install.sh
if [ -e "$here/claim.json" ]; then
    debian nightjar-agent enrol --config /etc/nightjar/agent.toml --claim /mnt/nightjar/claim.json
    run rm -f "$here/claim.json"
fi

if [ -n "$dry_run" ]; then
    say "would write: $boot"
else
    mkdir -p "${boot%/*}"
    cat >"$boot" <<'START'
#!/data/data/com.termux/files/usr/bin/sh
# Starts Nightjar's agent with the phone (Termux:Boot), and again whenever it ends.
termux-wake-lock
while :; do
    proot-distro login debian -- env NIGHTJAR_AGENT_DATA_DIR=/var/lib/nightjar-agent \
        nightjar-agent run --config /etc/nightjar/agent.toml >>"$HOME/nightjar.log" 2>&1
    tail -n 2000 "$HOME/nightjar.log" >"$HOME/nightjar.log.short" && mv "$HOME/nightjar.log.short" "$HOME/nightjar.log"
    sleep 30
done
START
    chmod 700 "$boot"
fi
say "done; it starts with the phone, or now: sh $boot &"
