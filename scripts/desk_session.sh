#!/usr/bin/env bash
# Types at a desk as Raspberry Pi OS has it: boots Debian trixie with its own systemd in namespaces, installs the packages
# of a desk there, and lets a person type in programs under a headless labwc. IBus starts the engine, and the engine the
# agent, as a unit of the person's own systemd. That is killed; packages of before are replaced by today's, these by
# themselves, and then they are removed and purged. Needs root and mmdebstrap.
# Usage: scripts/desk_session.sh FOLDER-OF-PACKAGES [FOLDER-OF-THE-ROOT, made if it is not there]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$1" != --boot ]; then
    packages=$(realpath "$1") root=$(realpath -m "${2:-build/desk-session}")
    if [ ! -d "$root" ]; then
        mmdebstrap --quiet --variant=apt --aptopt='APT::Install-Recommends "false"' --include=systemd-sysv,dbus-user-session,libpam-systemd,passwd,procps,ca-certificates,libstdc++6,python3,python3-gi,gir1.2-ibus-1.0,ibus,labwc,wtype,gir1.2-gtk-3.0,gir1.2-gtk-4.0,ibus-gtk3,ibus-gtk4,python3-pyqt6,qt6-wayland,fonts-dejavu-core trixie "$root"
        chroot "$root" apt-get update --quiet --quiet
    fi
    mkdir -p "$root/packages" "$root/desk"
    cp "$packages"/*.deb "$root/packages"
    cp tests/edge_agent/desktop/programs/{gtk3,gtk4,qt6}.py scripts/desk_session/*.{sh,py} "$root/desk"
    : > "$root/desk/log"
    tail -f "$root/desk/log" &
    trap 'kill %1' EXIT
    unshare --mount --pid --fork --uts --ipc --cgroup "scripts/desk_session.sh" --boot "$root" && status=0 || status=$?
    sleep 1
    exit "$status"
fi

root=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance devpts "$root/dev/pts"
for folder in dev/shm run tmp; do mount -t tmpfs tmpfs "$root/$folder"; done
cat > "$root/etc/systemd/system/desk.service" <<'UNIT'
[Unit]
After=systemd-logind.service
[Service]
ExecStart=bash /desk/trial.sh
ExecStopPost=systemctl --no-block --force exit
StandardOutput=append:/desk/log
StandardError=append:/desk/log
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../desk.service "$root/etc/systemd/system/multi-user.target.wants/desk.service"
cd "$root"
pivot_root . mnt
cd /
umount -l /mnt
exec env --ignore-environment container=desk PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target --log-target=null
