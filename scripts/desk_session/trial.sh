#!/usr/bin/env bash
# What scripts/desk_session.sh does inside, as root.
set -u
id ada > /dev/null 2>&1 || useradd --create-home ada
id=$(id -u ada)
as() {
    setpriv --reuid ada --regid ada --clear-groups env --ignore-environment PATH=/usr/bin:/bin HOME=/home/ada LANG=C.UTF-8 \
        XDG_RUNTIME_DIR="/run/user/$id" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$id/bus" "$@"
}
unit() { as systemctl --user show --value --property "$1" nightjar-agent.service; }
export DEBIAN_FRONTEND=noninteractive
apt-get install --quiet --quiet --yes --no-install-recommends /packages/*.deb > /desk/apt.log 2>&1 || tail /desk/apt.log
loginctl enable-linger ada  # what a login does: the person's own systemd runs
for _ in $(seq 100); do [ -S "/run/user/$id/bus" ] && break; sleep 0.2; done
echo "before the person chose Nightjar: $(unit ActiveState)"
as bash /desk/session.sh
pid=$(unit MainPID)
echo "the engine started the agent: $(unit ActiveState), pid $pid"
kill -KILL "$pid"
for _ in $(seq 120); do [ "$(unit NRestarts)" = 1 ] && [ "$(unit ActiveState)" = active ] && break; sleep 0.5; done
echo "after a kill: $(unit ActiveState), restarts $(unit NRestarts), another pid: $([ "$(unit MainPID)" != "$pid" ] && echo yes)"
apt-get remove --quiet --quiet --yes nightjar-agent nightjar-ibus 2>&1 | grep nightjar-agent:
for _ in $(seq 100); do pgrep -u ada -f nightjar > /dev/null || break; sleep 0.2; done
echo "after the removal: $(unit ActiveState), processes: $(pgrep -c -u ada -f nightjar)"
echo "left of the person's: $(cd /home/ada && find . -path '*nightjar' -prune | sort | tr '\n' ' ')"
