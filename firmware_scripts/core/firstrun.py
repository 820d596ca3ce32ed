"""The script that sets up Raspberry Pi OS bookworm, and our own images, at the first boot.

Bookworm runs it before the regular system if the kernel's command line asks for it (``systemd.run=``,
systemd-run-generator(8)), and then reboots. It always exits with success: otherwise the device would hang there, with
no network to report why. Faults are written to the card. It is POSIX sh, and every step may run twice.
"""

from __future__ import annotations

import shlex

from nightjar.firmware_scripts.core.cloud_init import GROUPS, with_country
from nightjar.firmware_scripts.core.host_settings import HostSettings, Wifi

SCRIPT = "firstrun.sh"
_RUN = (
    "systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot systemd.unit=kernel-command-line.target"
)
_EARLIER = ("systemd.run=", "systemd.run_success_action=", "systemd.run_failure_action=", "systemd.unit=kernel-command")

_BEGIN = """\
#!/bin/sh
# Written by `nightjar-firmware customise`. Runs once, as root, at the first start; then it removes itself.
card=/boot/firmware
tell() { printf '%s (first run)  %s\\n' "$(date -u '+%Y-%m-%d %H:%M:%SZ')" "$*" >>"$card/nightjar-status.txt"; sync; }
try() { "$@" || tell "failed with status $?: $1 ${2-}"; }
"""

_HOSTNAME = """
host={hostname}
tell "this is $host"
printf '%s\\n' "$host" >/etc/hostname
if grep -q '^127\\.0\\.1\\.1' /etc/hosts; then
    try sed -i "s/^127\\.0\\.1\\.1.*/127.0.1.1\\t$host/" /etc/hosts
else
    printf '127.0.1.1\\t%s\\n' "$host" >>/etc/hosts
fi
hostname "$host" 2>/dev/null || true
"""

_USER = """
user={user}
first=$(getent passwd 1000 | cut -d: -f1)
if ! id "$user" >/dev/null 2>&1; then
    if [ -n "$first" ]; then
        # The image's first user, whoever that is, becomes this one: there is one user, and no password that all know.
        try usermod --login "$user" "$first"
        try usermod --move-home --home "/home/$user" "$user"
        try groupmod --new-name "$user" "$first"
    else
        try useradd --create-home --shell /bin/bash "$user"
    fi
fi
for group in {groups}; do
    if getent group "$group" >/dev/null; then try usermod --append --groups "$group" "$user"; fi
done
try usermod --password {password} "$user"
{sudo}rm -f /etc/ssh/sshd_config.d/rename_user.conf /etc/xdg/autostart/piwiz.desktop
if command -v cancel-rename >/dev/null; then try cancel-rename "$user"; fi
"""

_SUDO = """\
if [ -d /etc/sudoers.d ]; then
    printf '%s ALL=(ALL) NOPASSWD:ALL\\n' "$user" >/etc/sudoers.d/010_nightjar && chmod 0440 /etc/sudoers.d/010_nightjar
fi
"""

_SSH = """
home=$(getent passwd "$user" | cut -d: -f6)
try mkdir -p "$home/.ssh"
cat >"$home/.ssh/authorized_keys" <<'KEYS'
{keys}
KEYS
chmod 700 "$home/.ssh"
chmod 600 "$home/.ssh/authorized_keys"
try chown -R "$user:" "$home/.ssh"
if [ -d /etc/ssh ]; then
    mkdir -p /etc/ssh/sshd_config.d
    printf 'PasswordAuthentication no\\n' >/etc/ssh/sshd_config.d/10-nightjar.conf
    try systemctl enable ssh
fi
"""

_WIFI = """
if [ -d /etc/NetworkManager ]; then
    connection=/etc/NetworkManager/system-connections/nightjar-wifi.nmconnection
    mkdir -p "${{connection%/*}}"
    (umask 077; cat >"$connection") <<'CONNECTION'
[connection]
id=nightjar-wifi
type=wifi
[wifi]
mode=infrastructure
ssid={ssid}
[wifi-security]
key-mgmt=wpa-psk
psk={key}
[ipv4]
method=auto
[ipv6]
method=auto
CONNECTION
    chmod 600 "$connection"
    for switch in /var/lib/systemd/rfkill/*:wlan; do
        if [ -e "$switch" ]; then echo 0 >"$switch"; fi
    done
else
    tell "no NetworkManager here: the Wi-Fi settings were not used"
fi
"""

_INSTALL = """
if sh "$card/nightjar/install.sh" >"$card/nightjar-install.log" 2>&1; then
    tell "the agent is in place"
else
    tell "the agent could not be put in place ($?): $(tail -n 1 "$card/nightjar-install.log")"
fi
"""

_END = """
rm -f "$card/firstrun.sh"
if [ -e "$card/cmdline.txt" ]; then
    try sed -i 's/ systemd\\.run[^ ]*//g; s/ systemd\\.unit=kernel-command-line\\.target//' "$card/cmdline.txt"
fi
tell "first run done"
sync
exit 0
"""


def firstrun_script(settings: HostSettings, *, install: bool) -> str:
    """Return the script; ``install`` says whether the card holds a bundle."""
    parts = [_BEGIN, _HOSTNAME.format(hostname=shlex.quote(settings.hostname))]
    if settings.user is not None:
        parts.append(
            _USER.format(
                user=shlex.quote(settings.user),
                groups=" ".join(GROUPS),
                password=shlex.quote(settings.password_hash or "*"),
                sudo="" if settings.password_hash else _SUDO,
            )
        )
    if settings.ssh_keys:
        parts.append(_SSH.format(keys="\n".join(settings.ssh_keys)))
    if settings.wifi is not None:
        parts.append(_WIFI.format(ssid=_key_file_text(settings.wifi), key=settings.wifi.key))
    if install:
        parts.append(_INSTALL)
    return "".join([*parts, _END])


def command_line(line: str, country: str | None) -> str:
    """Return the kernel's command line that runs the script once.

    >>> command_line("root=/dev/mmcblk0p2 systemd.run=/x quiet", None)[:32]
    'root=/dev/mmcblk0p2 quiet system'
    """
    others = [word for word in line.split() if not word.startswith(_EARLIER)]
    return f"{with_country(' '.join(others), country)} {_RUN}"


def _key_file_text(wifi: Wifi) -> str:
    """Encode an SSID for NetworkManager's key file: as byte values if its characters could be misread."""
    if wifi.ssid.isascii() and all(c.isalnum() or c in "-_. " for c in wifi.ssid) and wifi.ssid == wifi.ssid.strip():
        return wifi.ssid
    return "".join(f"{byte};" for byte in wifi.ssid.encode())
