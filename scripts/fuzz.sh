#!/usr/bin/env bash
# Fuzzes every decoder of bytes from the network, and a running coordinator and agent with sequences of messages and
# requests (one for each fifty inputs): by mutations, and by atheris (libFuzzer) where it has a wheel for this Python;
# then both as processes over sockets (one for each thousand), led by the lines that they execute.
# Usage: scripts/fuzz.sh [--runs N] [--seed N], N a million. build/fuzz keeps what led anywhere new for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-fuzz
stamp="$environment/.set-up-$(cat requirements/locks/fuzz.txt | cksum | tr -d ' ')"
if [ ! -f "$stamp" ]; then
    .venv/bin/python -m venv --clear "$environment"
    scripts/install_locked.sh "$environment/bin/python" fuzz.txt
    # The coordinator and the agent need more than the decoders; it is found in the other environment.
    packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$packages" > "$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/others.pth"
    touch "$stamp"
fi

runs=1000000 seed=1 arguments=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --runs) runs=$2; shift 2 ;;
        --seed) seed=$2; shift 2 ;;
        *) echo "fuzz: $1 is no option (--runs, --seed)" >&2; exit 2 ;;
    esac
done
"$environment/bin/python" -m tests.fuzz.decoders "${arguments[@]}"
"$environment/bin/python" -m tests.fuzz.sequences --runs $((runs / 50)) --seed "$seed"
if "$environment/bin/python" -c 'import atheris' 2>/dev/null; then
    "$environment/bin/python" -m tests.fuzz.guided "${arguments[@]}"
    "$environment/bin/python" -m tests.fuzz.guided --sequences --runs $((runs / 50)) --seed "$seed"
else
    echo "fuzz: atheris has no wheel for $("$environment/bin/python" --version), so only mutations were tried" >&2
fi
"$environment/bin/python" -m tests.fuzz.sockets --runs $(((runs + 999) / 1000)) --seed "$seed"
