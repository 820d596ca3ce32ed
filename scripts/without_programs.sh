#!/usr/bin/env bash
# Runs a command on this machine as on a bare one: the programs of scripts/optional_programs.txt are hidden, in a mount
# namespace that ends with the command. Usage: scripts/without_programs.sh COMMAND [ARGUMENT...]
set -euo pipefail
here=$(realpath "$(dirname "$0")")
if [ "${1:-}" != --inside ]; then
    user=(); [ "$(id -u)" = 0 ] || user=(--map-root-user)
    exec unshare --mount --propagation private "${user[@]}" "$here/without_programs.sh" --inside "$@"
fi
shift
empty=$(mktemp -d)
trap 'rmdir "$empty"' EXIT
while read -r what _; do
    case $what in
        '' | '#'*) continue ;;
        /*) found=$what ;;
        *) found=$(PATH="$PATH:/usr/sbin:/sbin" command -v "$what" || true) ;;
    esac
    [ -e "$found" ] || continue
    if [ -d "$found" ]; then mount --bind "$empty" "$found"; else mount --bind /dev/null "$(realpath "$found")"; fi
done < "$here/optional_programs.txt"
"$@"
