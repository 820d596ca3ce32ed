"""The files for cloud-init's NoCloud data source, for Raspberry Pi OS trixie and later.

They are written as JSON, which is valid YAML without YAML's surprises (a network called ``no`` stays a string). Each
card gets a new instance-id, so cloud-init treats it as a new device even if it was set up before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nightjar.firmware_scripts.core.host_settings import HostSettings
from nightjar.wire.errors import ConfigError

HEADER = "#cloud-config"
USER_DATA, META_DATA, NETWORK_CONFIG = "user-data", "meta-data", "network-config"
GROUPS = ("adm", "sudo", "video", "input", "netdev")
_CABLE = {"dhcp4": True, "optional": True}
_INSTANCE = re.compile(r"[a-zA-Z0-9._-]{1,64}")
# If the kernel's command line contains this, its instance-id takes precedence.
_SEED = re.compile(r"\bds=nocloud\b[^ ]*")


def user_data(settings: HostSettings, commands: tuple[tuple[str, ...], ...]) -> str:
    """The file ``user-data``; ``commands`` run at the end of the first start.

    >>> print(user_data(HostSettings("porch-01"), ())[:13])
    #cloud-config
    """
    data: dict[str, Any] = {
        "hostname": settings.hostname,
        "preserve_hostname": False,
        "manage_etc_hosts": True,
        "ssh_pwauth": False,
    }
    if settings.user is not None:
        user: dict[str, Any] = {
            "name": settings.user,
            "groups": list(GROUPS),
            "shell": "/bin/bash",
            "lock_passwd": settings.password_hash is None,
            "ssh_authorized_keys": list(settings.ssh_keys),
        }
        if settings.password_hash is None:
            # With no password, the user could not answer sudo's prompt.
            user["sudo"] = "ALL=(ALL) NOPASSWD:ALL"
        else:
            user["passwd"] = settings.password_hash
        data["users"] = [user]
    if commands:
        data["runcmd"] = [list(command) for command in commands]
    return f"{HEADER}\n{_json(data)}"


def meta_data(hostname: str, instance_id: str) -> str:
    """The file ``meta-data``."""
    return _json({"instance-id": instance_id, "local-hostname": hostname})


def network_config(settings: HostSettings, earlier: str = "") -> str | None:
    """The file ``network-config``; None keeps the image's own, which uses DHCP on Ethernet.

    ``earlier`` is the text of the file that is there. One of an earlier customisation, which may name a Wi-Fi, is never
    kept.
    """
    wifi = settings.wifi
    if wifi is None:
        try:
            ours = isinstance(json.loads(earlier), dict)  # images bring YAML, or only comments
        except (ValueError, RecursionError):
            ours = False
        return _json({"network": {"version": 2, "ethernets": {"eth0": _CABLE}}}) if ours else None
    wlan = {
        "dhcp4": True,
        "optional": True,
        "regulatory-domain": wifi.country,
        "access-points": {wifi.ssid: {"password": wifi.key}},
    }
    return _json({"network": {"version": 2, "ethernets": {"eth0": _CABLE}, "wifis": {"wlan0": wlan}}})


def command_line(line: str, instance_id: str, country: str | None) -> str:
    """The kernel's command line with the radio's country, and with this instance-id in place of an existing one.

    >>> command_line("quiet ds=nocloud;i=rpi-imager-1", "nightjar-2", "GB")
    'quiet ds=nocloud;i=nightjar-2 cfg80211.ieee80211_regdom=GB'
    """
    line = _SEED.sub(f"ds=nocloud;i={instance_id}", line.strip())
    return with_country(line, country)


def with_country(line: str, country: str | None) -> str:
    """The kernel's command line with the radio's regulatory country.

    >>> with_country("quiet cfg80211.ieee80211_regdom=US", "GB")
    'quiet cfg80211.ieee80211_regdom=GB'
    """
    if country is None:
        return line
    others = [word for word in line.split() if not word.startswith("cfg80211.ieee80211_regdom=")]
    return " ".join([*others, f"cfg80211.ieee80211_regdom={country}"])


def check_structure(files: Mapping[str, str]) -> None:
    """Check that cloud-init will understand these files; its own check runs as well if it is installed.

    Raises:
        ConfigError: cloud-init would not understand the files; nothing is written.
    """
    faults = []
    try:
        head, _, body = files[USER_DATA].partition("\n")
        user, meta = json.loads(body), json.loads(files[META_DATA])
        if head != HEADER:
            faults.append(f"user-data does not begin with {HEADER}")
        if not _INSTANCE.fullmatch(meta["instance-id"]) or meta["local-hostname"] != user["hostname"]:
            faults.append("meta-data has no instance-id, or another host name than user-data")
        if not all(
            account["lock_passwd"] or str(account["passwd"]).startswith("$") for account in user.get("users", [])
        ):
            faults.append("user-data holds a password that is no hash")
        if not all(isinstance(word, str) for command in user.get("runcmd", []) for word in command):
            faults.append("user-data has a command that is no list of words")
        if NETWORK_CONFIG in files:
            network = json.loads(files[NETWORK_CONFIG])["network"]
            points = [point for wlan in network.get("wifis", {}).values() for point in wlan["access-points"].values()]
            if network["version"] != 2 or not all(len(point["password"]) == 64 for point in points):
                faults.append("network-config is not of version 2, or holds a phrase instead of a key")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        faults.append(f"the files are not whole: {error!r:.80}")
    if faults:
        msg = "cloud-init would not understand what was to be written:\n  " + "\n  ".join(faults)
        raise ConfigError(msg)


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
