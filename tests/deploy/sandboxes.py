"""How exposed each unit may be, as ``systemd-analyze security`` counts it: 0 is best, 10 worst."""

MOST_EXPOSURE = {
    "nightjar-agent": 2.0,  # with trainer and suggester, which see what is typed
    "nightjar-enrol": 2.0,
    "nightjar-self-test": 2.0,
    "nightjar-firstrun": 2.0,  # the root units, which unpack what was fetched
    "nightjar-firstboot": 2.0,
    "nightjar-release": 2.0,
}
"""The units of a device."""
OF_A_COORDINATOR = {"nightjar-coordinator": 2.0}
ON_A_DESK = 6.5
"""The unit of a person's own systemd, which has few rights to give away."""
