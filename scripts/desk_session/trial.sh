#!/usr/bin/env bash
# What scripts/desk_session.sh does inside, as root.
set -u
id ada > /dev/null 2>&1 || useradd --create-home ada
id=$(id -u ada)
as() {
    setpriv --reuid ada --regid ada --clear-groups env --ignore-environment PATH=/usr/bin:/bin HOME=/home/ada LANG=C.UTF-8 \
        XDG_RUNTIME_DIR="/run/user/$id" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$id/bus" "$@"
}
# Packages of before: these with a lower version, and a file that they have no more.
former() {
    for deb in /packages/*.deb; do
        rm -rf /former/made
        mkdir -p /former/made
        dpkg-deb -R "$deb" /former/made
        sed -i "s/$(dpkg-deb -f "$deb" Version)/0.0.1/" /former/made/DEBIAN/control
        case $deb in *nightjar-agent_*) echo 'FORMER = 1' > /former/made/usr/lib/nightjar/lib/former.py ;; esac
        dpkg-deb -Znone -b /former/made "/former/$(basename "$deb")" > /dev/null
    done
}
quietly() { apt-get --quiet --quiet --yes --no-install-recommends "$@" > /desk/apt.log 2>&1 || tail /desk/apt.log; }
ask() { as python3 /desk/ask.py "$1"; }
upgraded() {
    for _ in $(seq 240); do [ "$(unit ActiveState)" = active ] && [ "$(unit MainPID)" != "$2" ] && break; sleep 0.5; done
    echo "$1: $(unit ActiveState), another pid: $([ "$(unit MainPID)" != "$2" ] && echo yes || echo no)," \
        "version $(dpkg-query -W -f '${Version}' nightjar-agent), knows what was learned: $(ask '{"do": "complete", "partial": "zyzzyv"}')"
}
unit() { as systemctl --user show --value --property "$1" nightjar-agent.service; }
export DEBIAN_FRONTEND=noninteractive
former
quietly install /former/*.deb
loginctl enable-linger ada  # what a login does: the person's own systemd runs
for _ in $(seq 100); do [ -S "/run/user/$id/bus" ] && break; sleep 0.2; done
echo "before the person chose Nightjar: $(unit ActiveState)"
as bash /desk/session.sh
pid=$(unit MainPID)
echo "the engine started the agent: $(unit ActiveState), pid $pid"
kill -KILL "$pid"
for _ in $(seq 120); do [ "$(unit NRestarts)" = 1 ] && [ "$(unit ActiveState)" = active ] && break; sleep 0.5; done
echo "after a kill: $(unit ActiveState), restarts $(unit NRestarts), another pid: $([ "$(unit MainPID)" != "$pid" ] && echo yes)"
for _ in 1 2; do ask '{"do": "learn", "text": "see you at the zyzzyvarium", "program": "editor"}' > /dev/null; done
pid=$(unit MainPID)
quietly install /packages/*.deb
upgraded "upgraded while the person types" "$pid"
echo "left of the package of before: $(find /usr/lib/nightjar -name '*former*' | tr '\n' ' ')"
pid=$(unit MainPID)
quietly install --reinstall /packages/*.deb
upgraded "installed over itself" "$pid"
apt-get remove --quiet --quiet --yes nightjar-agent nightjar-ibus 2>&1 | grep nightjar-agent:
for _ in $(seq 100); do pgrep -u ada -f nightjar > /dev/null || break; sleep 0.2; done
echo "after the removal: $(unit ActiveState), processes: $(pgrep -c -u ada -f nightjar)"
quietly purge nightjar-agent nightjar-ibus
echo "left of the packages after a purge: $(find / -xdev \( -path /proc -o -path /home -o -path /packages -o -path /former -o -path /desk \) -prune -o -name '*nightjar*' -print | tr '\n' ' ')"
echo "left of the person's: $(cd /home/ada && find . -path '*nightjar' -prune | sort | tr '\n' ' ')"
