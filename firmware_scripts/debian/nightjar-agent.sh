#!/bin/sh
# The agent, with the person's own settings if there are some.
own="${XDG_CONFIG_HOME:-$HOME/.config}/nightjar/agent.toml"
if [ ! -f "$own" ]; then
    own=/usr/share/nightjar/desk.toml
    # Where the input method looks for it, too.
    [ -z "${XDG_DATA_HOME:-}" ] || export NIGHTJAR_AGENT_DATA_DIR="$XDG_DATA_HOME/nightjar"
fi
exec env NIGHTJAR_SETTINGS="${NIGHTJAR_SETTINGS:-$own}" PYTHONPATH=/usr/lib/nightjar/lib \
    /usr/bin/python3 -s -P -m nightjar.edge_agent "$@"
