#!/usr/bin/env bash
# Builds a release, signs it and checks it as somebody who fetched it would, in build/release/VERSION. It publishes nothing.
# Usage: scripts/release.sh --key NAME.key [--platform NAME]... [--unaudited]
#   --key        the owner's offline key of `nightjar-firmware bundle-key`; NAME.pub lies beside it
#   --platform   a platform of `nightjar-firmware bundle` (default: all of them)
#   --unaudited  go on where no advisories could be fetched; known ones always stop
set -euo pipefail
cd "$(dirname "$0")/.."

key="" platforms=() unaudited=""
while [ $# -gt 0 ]; do
    case $1 in
        --key) key=${2:?--key needs a file}; shift 2 ;;
        --platform) platforms+=("${2:?--platform needs a name}"); shift 2 ;;
        --unaudited) unaudited=yes; shift ;;
        *) echo "release: $1 is no option (--key, --platform, --unaudited)" >&2; exit 2 ;;
    esac
done
stop() { echo "release: $*" >&2; exit 1; }
say() { echo "release: $*"; }
python=.venv/bin/python

# --- what must be so before anything is built ---
[ -n "$key" ] || stop "expected --key NAME.key, the key that signs; 'nightjar-firmware bundle-key' makes one"
public=${key%.key}.pub
if [ ! -f "$key" ] || [ ! -f "$public" ]; then stop "expected a pair, $key and $public; 'nightjar-firmware bundle-key' makes one"; fi
halves() { [ "$(openssl pkey -in "$1" -pubout)" = "$(openssl pkey -pubin -in "$2")" ]; }
halves "$key" "$public" || stop "$public is not the other half of $key"
version=$($python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
[ -z "$(git status --porcelain)" ] || stop "something is not committed: a release is made of what is"
grep -q "^## $version\$" CHANGELOG.md || stop "CHANGELOG.md has no heading '## $version' (not 'unreleased')"
$python -m scripts.release.image_digests --check
code=0; scripts/audit.sh || code=$?
case $code in
    0) ;;
    3) [ -n "$unaudited" ] || stop "the locks were not audited; try again with a network, or take it on you with --unaudited" ;;
    *) stop "there are advisories about locked packages: renew them with 'make lock'" ;;
esac

# --- build: every file comes from the commit, with its date ---
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); export SOURCE_DATE_EPOCH
umask 022
out=build/release/$version
rm -rf "$out"; mkdir -p "$out"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
git archive HEAD | tar --extract --directory "$work" --one-top-level=source
say "wheel and sources"
$python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir "$out" "$work/source"
git archive --prefix="nightjar-$version/" --output "$out/nightjar-$version.tar.gz" HEAD
git archive --prefix="nightjar-deploy-$version/" --output "$out/nightjar-deploy-$version.tar.gz" HEAD:deploy
$python -m scripts.release.container_sbom --output "$out/nightjar-container-$version.cdx.json"
if [ ${#platforms[@]} = 0 ]; then
    mapfile -t platforms < <($python -c 'from nightjar.firmware_scripts.bundle.platforms import PLATFORMS
print(*(each.name for each in PLATFORMS if not each.exempt), sep="\n")')
fi
for platform in "${platforms[@]}"; do
    say "bundle for $platform"
    $python -m nightjar.firmware_scripts bundle --platform "$platform" --key "$key" --output "$out"
done

# --- sign ---
cp "$public" "$out/release.pub"
(cd "$out" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) > "$work/SHA256SUMS"
mv "$work/SHA256SUMS" "$out"
openssl pkeyutl -sign -rawin -inkey "$key" -in "$out/SHA256SUMS" -out "$out/SHA256SUMS.sig"

# --- check what lies there, with nothing but what a stranger has: the files and the public key from elsewhere ---
say "checking"
openssl pkeyutl -verify -rawin -pubin -inkey "$public" -in "$out/SHA256SUMS" -sigfile "$out/SHA256SUMS.sig"
(cd "$out" && sha256sum --check --strict --quiet SHA256SUMS)
$python -m venv --without-pip "$work/environment"
$python -m pip --python "$work/environment/bin/python" install --quiet --no-deps --no-index "$out"/nightjar*.whl
held=$("$work/environment/bin/python" -P -c 'from importlib.metadata import version; print(version("nightjar-federated"))')
[ "$held" = "$version" ] || stop "the wheel says $held, expected $version"
for bundle in "$out"/*.tar; do
    $python - "$bundle" "$public" <<'CHECK'
import sys
from pathlib import Path

from nightjar.firmware_scripts.bundle.reading import read_archive
from nightjar.firmware_scripts.bundle.signing import check_signature, load_public_key

bundle, public = map(Path, sys.argv[1:])
key = load_public_key(public)
read_archive(bundle, lambda manifest, signature: check_signature(key, manifest, signature))
CHECK
done
say "$version is in $out: $(find "$out" -type f | wc -l) files. To publish: tag the commit, and bring the folder where people fetch it"
