#!/usr/bin/env bash
# Writes the tree of a former commit into a new folder, from the history of this checkout: former_version.sh COMMIT FOLDER
# Status 3: the history does not reach so far, as in a shallow clone or an unpacked sdist.
set -euo pipefail
commit=$1 folder=$2
cd "$(dirname "$0")/.."
git cat-file -e "$commit^{tree}" 2>/dev/null || { echo "no commit $commit in this checkout's history" >&2; exit 3; }
mkdir -p "$folder"
git archive "$commit" | tar -x -C "$folder"
