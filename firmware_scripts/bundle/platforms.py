"""The platforms that bundles are made for, and the pip options that select their wheels.

pip takes a foreign platform's tags literally: asking for ``manylinux2014`` does not find a wheel tagged
``manylinux_2_34`` (such as tflite-runtime 2.14 for aarch64). So every tag that the device's C library supports is
named.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.wire.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Platform:
    """One kind of device."""

    name: str
    machine: str  # the kernel's name for the processor
    glibc_minor: int  # the x in 2.x
    python: tuple[int, int]  # such as (3, 11)
    requirements: str  # the project's requirements file for the platform
    exempt: str = ""  # why no bundle can be made for it; empty if one can

    def tags(self) -> tuple[str, ...]:
        """The platform tags of the wheels that run on it, newest first."""
        named = [f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc_minor, 16, -1)]
        return (*named, f"manylinux2014_{self.machine}")

    def pip_options(self) -> tuple[str, ...]:
        """Options that make ``pip download`` choose wheels for this platform instead of the host."""
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


def platform_named(name: str) -> Platform:
    """Look up a platform by name.

    Raises:
        ConfigError: the platform does not exist, or no bundle can be made for it.
    """
    match = next((platform for platform in PLATFORMS if platform.name == name), None)
    if match is None:
        msg = f"there is no platform {name!r}; there are {', '.join(platform.name for platform in PLATFORMS)}"
        raise ConfigError(msg)
    if match.exempt:
        msg = f"no bundle can be made for {name}: {match.exempt}"
        raise ConfigError(msg)
    return match
