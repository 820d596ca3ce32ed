#!/usr/bin/env bash
# Renews requirements/locks: for each requirements/NAME.txt the newest versions that it allows and all that these need, for
# every Python and 64-bit machine, with the hashes of their files. `git diff` shows what would change.
set -euo pipefail
cd "$(dirname "$0")/../requirements"

all=$(mktemp)
trap 'rm -f "$all"' EXIT
resolve() { # requirements on standard input; each package in one version for all, as pip fetches by its own Python
    "${UV:-../.venv/bin/uv}" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --upgrade --no-annotate \
        --custom-compile-command "make lock" "$@" -
}
# 32-bit ARM installs from another index (docs/platforms.md), and its old numpy would be everybody's.
wanted() { grep -hv '; platform_machine == "armv7l"' "$@"; }

# What is installed together must agree, so everything is resolved once, and then file by file.
together=(agent coordinator tensorflow firmware simulation dev ray jax s3 images agent-tests build pip fuzz)
# backports-strenum 1.3 is for Python before 3.11, which uv overlooks and pip does not.
(wanted "${together[@]/%/.txt}" && echo "backports-strenum<1.3") | resolve --output-file "$all"
for name in "${together[@]}" tensorflow-gpu; do
    wanted "$name.txt" | resolve --generate-hashes --constraint "$all" --output-file "locks/$name.txt"
done
wanted agent-tflite-runtime.txt | resolve --generate-hashes --output-file locks/agent-tflite-runtime.txt
