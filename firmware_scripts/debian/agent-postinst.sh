#!/bin/sh
set -e
if [ "$1" = configure ]; then
    # Bytecode, without which each start takes seconds longer; py3clean takes it away again.
    py3compile -p nightjar-agent /usr/lib/nightjar
    if [ -d /run/systemd/system ] && command -v deb-systemd-invoke > /dev/null; then
        # Only where it runs: a person's agent of before goes on with files that are no longer there.
        deb-systemd-invoke --user daemon-reload || true
        deb-systemd-invoke --user restart nightjar-agent.service || true
    fi
fi
