"""The settings of one host on its card: name, user, keys, Wi-Fi. All are checked before anything is written.

Anyone who holds the card can read it, so no secret on it is useful beyond this device and network: a Wi-Fi phrase
becomes the network's key (IEEE 802.11i-2004, annex H.4), and passwords are accepted only as hashes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from nightjar.wire.errors import ConfigError

HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A host name of one label, as in RFC 1123."""
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_NOT_FOR_PEOPLE = frozenset({"root", "nobody", "daemon", "sshd", "nightjar-agent"})
_COUNTRY = re.compile(r"[A-Z]{2}")
_KEY = re.compile(r"[0-9a-fA-F]{64}")
# crypt(5): yescrypt and SHA-512, the methods that Debian creates and accepts.
_PASSWORD_HASH = re.compile(
    r"\$y\$[./A-Za-z0-9]+\$[./A-Za-z0-9]{0,86}\$[./A-Za-z0-9]{43}|\$6\$[^:$\n]{1,40}\$[./A-Za-z0-9]{86}"
)
_SSH_TYPES = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


@dataclass(frozen=True, slots=True)
class Wifi:
    """A Wi-Fi network: its name, its key as 64 hexadecimal digits, and the radio's regulatory country."""

    ssid: str
    key: str
    country: str


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings of one host."""

    hostname: str
    user: str | None = None  # the user who may log in; None leaves the image's users unchanged
    ssh_keys: tuple[str, ...] = ()
    password_hash: str | None = None  # the user's password hash, as in shadow(5); None locks the password
    wifi: Wifi | None = None  # the Wi-Fi network; None leaves the image's network unchanged


def check_settings(settings: HostSettings) -> None:
    """Check that every setting can be used.

    Raises:
        ConfigError: some settings cannot be used; the message lists every fault.

    >>> check_settings(HostSettings("porch-01", "ann"))
    Traceback (most recent call last):
    ...
    nightjar.wire.errors.ConfigError: the card cannot be customised:
      nobody could log in as ann: give an SSH key or a password hash
    """
    faults = []
    if not HOSTNAME.fullmatch(settings.hostname):
        shown = settings.hostname[:80]
        faults.append(f"{shown!r} is no host name (a to z, 0 to 9, '-' inside, at most 63)")
    if settings.user is None:
        if settings.ssh_keys or settings.password_hash:
            faults.append("an SSH key or a password needs a user: give --user")
    elif not _USER.fullmatch(settings.user) or settings.user in _NOT_FOR_PEOPLE:
        faults.append(f"{settings.user[:40]!r} is no name for a user (a to z, 0 to 9, '_', '-'; not root)")
    elif not settings.ssh_keys and not settings.password_hash:
        faults.append(f"nobody could log in as {settings.user}: give an SSH key or a password hash")
    faults += [fault for key in settings.ssh_keys if (fault := ssh_key_fault(key))]
    if settings.password_hash is not None and not _PASSWORD_HASH.fullmatch(settings.password_hash):
        # The value is not shown because it may be the password itself.
        faults.append("the password is no hash of yescrypt or SHA-512: make one with mkpasswd --method=yescrypt")
    if settings.wifi is not None:
        faults += _wifi_faults(settings.wifi)
    if faults:
        msg = "the card cannot be customised:\n  " + "\n  ".join(faults)
        raise ConfigError(msg)


def check_wifi(ssid: str, country: str) -> None:
    """Check the name of a Wi-Fi and the country that it is used in.

    Raises:
        ConfigError: one of them cannot be used.
    """
    if faults := _wifi_faults(Wifi(ssid, "0" * 64, country)):
        msg = "the Wi-Fi cannot be used:\n  " + "\n  ".join(faults)
        raise ConfigError(msg)


def wifi_key(ssid: str, phrase: str) -> str:
    """Derive the network's key from its phrase; a key is returned as it is. Only the key is written to the card.

    Source: IEEE 802.11i-2004, annex H.4 (test vector below).

    Raises:
        ConfigError: the text is neither a phrase nor a key.

    >>> wifi_key("IEEE", "password")
    'f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e'
    """
    if _KEY.fullmatch(phrase):
        return phrase.lower()
    if not 8 <= len(phrase) <= 63 or not phrase.isascii() or not phrase.isprintable():
        msg = "a Wi-Fi phrase has 8 to 63 ASCII characters, a key has 64 hexadecimal figures"
        raise ConfigError(msg)
    return hashlib.pbkdf2_hmac("sha1", phrase.encode(), ssid.encode(), 4096, 32).hex()


def ssh_key_fault(line: str) -> str:
    """What is wrong with a line of ``authorized_keys``; empty if it is valid.

    >>> ssh_key_fault("ssh-ed25519 AAAA")
    'an SSH key is cut short, or is not what it says it is'
    """
    if "PRIVATE KEY" in line:
        return "this is a PRIVATE key, and belongs on no card: give the .pub file beside it"
    kind, _, rest = line.partition(" ")
    if kind not in _SSH_TYPES or "\n" in line or not line.isprintable():
        return f"{line[:24]!r} begins no public SSH key of a kind in use ({', '.join(sorted(_SSH_TYPES)[:5])})"
    try:
        blob = base64.b64decode(rest.split(" ")[0], validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    # RFC 4253, section 6.6: the blob begins with the key type.
    if not blob.startswith(len(kind).to_bytes(4, "big") + kind.encode()) or len(blob) < 4 + len(kind) + 32:
        return "an SSH key is cut short, or is not what it says it is"
    return ""


def _wifi_faults(wifi: Wifi) -> list[str]:
    faults = []
    if not 1 <= len(wifi.ssid.encode()) <= 32 or not wifi.ssid.isprintable():
        faults.append("the name of a Wi-Fi network has 1 to 32 bytes that can be shown")
    if not _KEY.fullmatch(wifi.key):
        faults.append("the key of a Wi-Fi network has 64 hexadecimal figures")
    if not _COUNTRY.fullmatch(wifi.country):
        faults.append("Wi-Fi needs the country that its radio is used in, such as GB: --wifi-country")
    return faults
