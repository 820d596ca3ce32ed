#!/usr/bin/env bash
# A bundle for aarch64, used on aarch64: unpacks it, installs its wheels from nothing but itself, imports the agent and
# trains three steps of the tiny model under qemu-user, and compares the losses with this machine's. No root needed.
# Usage: scripts/bundle_on_aarch64.sh MODEL_FOLDER   (of python -m nightjar.models export --model tiny)
# Needs: apt install qemu-user-static mmdebstrap uidmap. The file system is kept in build/aarch64 for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:?"usage: $0 MODEL_FOLDER"}
python=${PYTHON:-.venv/bin/python}

for tool in qemu-aarch64-static mmdebstrap; do
    command -v "$tool" >/dev/null || { echo "bundle_on_aarch64: needs $tool (apt install qemu-user-static mmdebstrap)" >&2; exit 2; }
done

kept=build/aarch64
root=$kept/root
mkdir -p "$kept"
if [ ! -e "$root/usr/bin/python3.11" ]; then
    # Only unpacked, not configured: that is all that Python needs, and takes seconds instead of minutes.
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3-minimal,python3,libstdc++6 \
        bookworm "$kept/root.tar"
    mkdir -p "$root"
    tar --extract --file "$kept/root.tar" --directory "$root" --exclude './dev/*' --no-same-owner
    rm "$kept/root.tar"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m nightjar.firmware_scripts bundle-key "$work/key" >&2
"$python" -m nightjar.firmware_scripts bundle --platform bookworm-aarch64 --key "$work/key.key" --output "$work" >&2
bundle=$(echo "$work"/*.tar)
"$python" -m nightjar.firmware_scripts verify "$bundle" --public-key "$work/key.pub" >&2
tar --extract --file "$bundle" --directory "$work" --strip-components 1

# pip runs here, but chooses as the device's pip would: these are the tags of bookworm on aarch64.
mapfile -t options < <("$python" -c '
from nightjar.firmware_scripts.bundle.platforms import platform_named
print(*platform_named("bookworm-aarch64").pip_options(), sep="\n")')
"$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$work/wheels" --require-hashes \
    --no-deps "${options[@]}" --target "$work/installed" --requirement "$work/requirements.lock"

# The steps of the agent's self-test, there by the agent that was installed from the bundle, here by the checkout's.
steps='
import json, pathlib, sys
from nightjar.edge_agent.commands.self_test import train_steps
from nightjar.edge_agent.shell.model_files import exported_model
print(json.dumps({"losses": train_steps(exported_model(pathlib.Path(sys.argv[1])))}))'
# -E would drop PYTHONHOME, which tells the foreign Python where it lives.
env QEMU_LD_PREFIX="$root" PYTHONHOME="$root/usr" PYTHONPATH="$work/installed" PYTHONDONTWRITEBYTECODE=1 \
    qemu-aarch64-static "$root/usr/bin/python3.11" -c "$steps" "$model" | tee "$work/there.json"
PYTHONPATH=. "$python" -c "$steps" "$model" | tee "$work/here.json"
"$python" - "$work/there.json" "$work/here.json" <<'COMPARE'
import json, sys
there, here = (json.load(open(path))["losses"] for path in sys.argv[1:])
worst = max(abs(a - b) for a, b in zip(there, here, strict=True))
print(f"largest difference of a loss: {worst:.1e}", file=sys.stderr)
# The runtimes differ and so does the order of their sums; a wrong kernel differs by far more.
sys.exit(worst > 1e-4 or not here[-1] < here[0])
COMPARE
