#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ] && command -v deb-systemd-invoke > /dev/null; then
    deb-systemd-invoke --user stop nightjar-agent.service || true
fi
py3clean -p nightjar-agent
