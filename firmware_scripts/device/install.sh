#!/bin/sh
# Puts Nightjar's agent onto this device from the folder that this script lies in, with no network. POSIX sh.
# Run it as often as you like: what is there already stays. As root:
#
#   sh install.sh [--dry-run] [--root DIR]
#   sh install.sh --uninstall [--with-data] [--dry-run] [--root DIR]
#
# The folder holds bundle.tar, bundle.pub (who may sign bundles), nightjar-device.pyz, and perhaps agent.toml (settings)
# and claim.json (what the device enrols with). --root works on another folder than /, and starts nothing.
# Ends with 0 done, 2 something for you to mend (the bundle, an option), 3 something is missing or broken, 4 the release
# was not taken.
set -eu

say() { printf 'nightjar: %s\n' "$*"; }
fail() { status=$1; shift; printf 'nightjar: %s\n' "$*" >&2; exit "$status"; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=/
dry_run='' uninstall='' with_data=''
while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry_run=yes ;;
        --uninstall) uninstall=yes ;;
        --with-data) with_data=--with-data ;;
        --root) [ $# -ge 2 ] || fail 2 "--root needs a folder"; root=$2; shift ;;
        -h | --help)
            sed -n '/^#   sh/s/^#   //p' "$0"
            exit 0
            ;;
        *) fail 2 "unknown option $1: --dry-run, --root DIR, --uninstall, --with-data" ;;
    esac
    shift
done
[ -d "$root" ] || fail 2 "there is no folder $root"
root=$(CDPATH='' cd -- "$root" && pwd)
# "/" as a prefix is nothing.
below=${root%/}

run() {
    if [ -n "$dry_run" ]; then say "would run: $*"; else "$@"; fi
}

[ "$root" != / ] || [ -n "$dry_run" ] || [ "$(id -u)" = 0 ] || fail 3 "run it as root: sudo sh $0"
# The system's own, which the agent will run with, whatever else comes first on somebody's path.
python=/usr/bin/python3
[ -x "$python" ] || fail 3 "python3 is missing: apt install python3"
"$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail 3 "$("$python" --version) is too old: Debian 12 (bookworm) and later have 3.11"

if [ -n "$uninstall" ]; then
    program=$below/opt/nightjar/nightjar-device.pyz
    [ -e "$program" ] || program=$here/nightjar-device.pyz
    # shellcheck disable=SC2086 # one option or none
    run "$python" -s "$program" --root "$root" uninstall $with_data
    exit 0
fi

command -v openssl >/dev/null || fail 3 "openssl is missing: apt install openssl"
for name in bundle.tar bundle.pub nightjar-device.pyz; do
    [ -s "$here/$name" ] || fail 3 "$here/$name is missing or empty"
done

# The key that is on the device decides from now on: another card must not bring another owner unasked.
key=$below/etc/nightjar/bundle.pub
if [ ! -e "$key" ]; then
    run mkdir -p "$below/etc/nightjar"
    run install -m 0644 "$here/bundle.pub" "$key"
elif ! cmp -s "$here/bundle.pub" "$key"; then
    say "$key stays as it is and differs from the one here; remove it first if its owner has changed"
fi

# Settings that were changed on the device stay, unless the card brings others than it brought the last time.
settings=$below/etc/nightjar/agent.toml
brought=$below/var/lib/nightjar/agent.toml.brought
if [ -e "$here/agent.toml" ] && ! cmp -s "$here/agent.toml" "$brought"; then
    run mkdir -p "$below/etc/nightjar" "$below/var/lib/nightjar"
    # A broker's password may stand in it: for root alone, and systemd gives the agent's unit a copy.
    run install -m 0600 "$here/agent.toml" "$settings"
    run install -m 0600 "$here/agent.toml" "$brought"
fi
[ -e "$settings" ] || [ -n "$dry_run" ] || say "there is no $settings yet: the agent waits for it"

started=''
[ -e "$below/opt/nightjar/current" ] || started=--no-start
if [ -n "$dry_run" ]; then
    trusted=$key
    [ -e "$key" ] || trusted=$here/bundle.pub
    "$python" -s "$here/nightjar-device.pyz" --root "$root" check "$here/bundle.tar" --key "$trusted"
fi
# shellcheck disable=SC2086 # one option or none
run "$python" -s "$here/nightjar-device.pyz" --root "$root" install "$here/bundle.tar" $started
# Tries the release, enrols, and goes on trying while there is no network yet. A firstrun.sh of bookworm runs before the
# system proper, and starts the device anew; everything begins by itself then.
if [ -n "$started" ] && [ "$root" = / ] && [ -d /run/systemd/system ] &&
    ! grep -q kernel-command-line.target /proc/cmdline; then
    run systemctl daemon-reload
    run systemctl start --no-block nightjar-firstboot.service
fi
run sync
[ -z "$dry_run" ] || { say "nothing was changed"; exit 0; }
say "done; $below/boot/firmware/nightjar-status.txt says how it goes on"
