"""What the kernel of a twin says about power, to compare with what was done to its plug."""

from nightjar.firmware_scripts.twin.guest import Guest


def what_the_kernel_says(guest: Guest) -> dict[str, str]:
    """Each file that says something about power, and what: ``test_ac/online`` → ``1``."""
    files = "cd /sys/class/power_supply && grep -s . */type */online */status */capacity || true"
    rows = (line.partition(":") for line in guest.shell(files).splitlines())
    return {name: value for name, _, value in rows}
