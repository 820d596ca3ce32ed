#!/usr/bin/env bash
# Runs the fast tests of the product in a root file system of Debian trixie (Python 3.13), made for this run and thrown
# away. It gets the tracked files and wheels that pip fetches out here, so nothing in it needs the network. Before them, a
# bundle is made out here and in there, with another clock, umask, path and host name: byte for byte the same.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/trixie
mkdir -p "$folder"
locks=(--no-deps --require-hashes)
for name in build agent coordinator firmware simulation dev; do locks+=(--requirement "requirements/locks/$name.txt"); done
.venv/bin/python -m pip download --quiet --disable-pip-version-check --python-version 3.13 --only-binary :all: \
    --dest "$folder/wheels" "${locks[@]}"
bundle="$folder/bundle"
rm -rf "$bundle" && mkdir -p "$bundle/wheels"
.venv/bin/python -m nightjar.firmware_scripts bundle-key "$bundle/throwaway"
.venv/bin/python -m nightjar.firmware_scripts bundle --platform trixie-x86_64 --key "$bundle/throwaway.key" -o "$bundle"
tar --extract --file "$bundle"/nightjar-*.tar --directory "$bundle" --strip-components 1 --exclude '*/nightjar_*' \
    --wildcards '*/wheels/*'
sha256sum "$bundle"/nightjar-*.tar | cut -d ' ' -f 1 > "$bundle/sha256" && rm "$bundle"/nightjar-*.tar
git ls-files -z | tar --create --null --files-from - --file "$folder/source.tar" --transform 's,^,nightjar/,S'

cat > "$folder/inside.sh" <<INSIDE
set -eu
cd /nightjar
python3 -m venv /environment
/environment/bin/python -m pip install --quiet --no-compile --no-index --find-links /wheels uv
export UV_PYTHON=/environment UV_NO_CACHE=1 UV_OFFLINE=1 # which installs in a third of the time
/environment/bin/uv pip install --quiet --no-index --find-links /wheels ${locks[*]}
/environment/bin/uv pip install --quiet --no-index --no-deps --no-build-isolation --editable .
git init --quiet && git add . # tests of what is tracked ask git
(
    umask 077
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
    unshare --uts sh -c 'hostname elsewhere && exec "\$@"' sh faketime '2031-05-06 07:08:09' \
        /environment/bin/python -m nightjar.firmware_scripts bundle --platform trixie-x86_64 \
        --key /bundle/throwaway.key --wheels /bundle/wheels -o /elsewhere
)
echo "\$(cat /bundle/sha256)  \$(echo /elsewhere/nightjar-*.tar)" | sha256sum --check
exec scripts/fast_tests.sh /environment/bin/python -n 2 --dist loadgroup \\
    --ignore=tests/experiments --ignore=tests/benchmarks --ignore=tests/models/pretraining/test_memory.py \\
    --ignore=tests/firmware_scripts/shell/test_loop_device.py --ignore=tests/firmware_scripts/shell/test_file_use.py "\$@"
INSIDE
mmdebstrap --quiet --variant=apt --format=null --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --include=ca-certificates,e2fsprogs,faketime,fdisk,git,openssl,python3,python3-venv \
    --customize-hook="tar-in $folder/source.tar /" --customize-hook="copy-in $folder/wheels $bundle $folder/inside.sh /" \
    --customize-hook="env --ignore-environment HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        chroot \"\$1\" bash /inside.sh ${*@Q}" trixie
