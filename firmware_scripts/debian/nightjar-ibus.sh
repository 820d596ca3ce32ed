#!/bin/sh
# What IBus starts when a person has chosen Nightjar: this person's agent, unless it runs already, and the engine.
if [ "${1:-}" = --ibus ] && ! systemctl --user --quiet start --no-block nightjar-agent.service 2> /dev/null; then
    # A session without systemd. Of two agents of one person the second ends at once.
    setsid nightjar-agent run > /dev/null 2>&1 < /dev/null &
fi
exec env PYTHONPATH=/usr/lib/nightjar/lib /usr/bin/python3 -s -P -m nightjar.edge_agent.desktop "$@"
