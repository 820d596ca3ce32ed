"""The kinds of devices that a bundle is made for, and how pip has to be asked for their wheels.

pip takes the tags of a foreign platform literally: a wheel tagged ``manylinux_2_34`` (as tflite-runtime 2.14 for
aarch64 is) is not found by asking for ``manylinux2014``. So every tag that the device's C library can run is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wire.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Platform:
    """One kind of device.

    Attributes:
        name: as it is asked for.
        machine: the kernel's name of the processor.
        glibc_minor: of its C library, 2.x.
        python: its version, such as (3, 11).
        requirements: the file of the project's requirements for it.
        exempt: why no bundle can be made; empty if one can.
    """

    name: str
    machine: str
    glibc_minor: int
    python: tuple[int, int]
    requirements: str
    exempt: str = ""

    def tags(self) -> tuple[str, ...]:
        """The platform tags of wheels that run on it, newest first."""
        named = [f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc_minor, 16, -1)]
        return (*named, f"manylinux2014_{self.machine}")

    def pip_options(self) -> tuple[str, ...]:
        """What makes ``pip download`` choose wheels for this platform instead of the one that it runs on."""
        major, minor = self.python
        options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", f"{major}{minor}"]
        for abi in (f"cp{major}{minor}", "abi3", "none"):
            options += ["--abi", abi]
        for tag in self.tags():
            options += ["--platform", tag]
        return tuple(options)


PLATFORMS: tuple[Platform, ...] = (
    Platform("bookworm-aarch64", "aarch64", 36, (3, 11), "agent-tflite-runtime.txt"),
    Platform("trixie-aarch64", "aarch64", 41, (3, 13), "agent.txt"),
    Platform("bookworm-x86_64", "x86_64", 36, (3, 11), "agent.txt"),
    Platform("trixie-x86_64", "x86_64", 41, (3, 13), "agent.txt"),
    Platform(
        "bookworm-armv7l",
        "armv7l",
        36,
        (3, 11),
        "agent.txt",
        exempt="PyPI has no wheels of numpy and msgspec for 32-bit ARM; use a 64-bit system, which every board since "
        "the Raspberry Pi 3 runs, or install from piwheels with a network",
    ),
)


def platform_named(name: str, platforms: Sequence[Platform] = PLATFORMS) -> Platform:
    """The platform of that name.

    Raises:
        ConfigError: there is none, or no bundle can be made for it.
    """
    found = next((platform for platform in platforms if platform.name == name), None)
    if found is None:
        msg = f"there is no platform {name!r}; there are {', '.join(platform.name for platform in platforms)}"
        raise ConfigError(msg)
    if found.exempt:
        msg = f"no bundle can be made for {name}: {found.exempt}"
        raise ConfigError(msg)
    return found
