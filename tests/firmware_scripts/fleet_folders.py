"""A fleet's folder as ``new-fleet`` leaves it, with a bundle as small as bundles can be and no coordinator."""

import json

from nightjar.firmware_scripts.core.fleet_plan import FleetPlan, agent_settings_text, plan_text
from nightjar.firmware_scripts.core.host_settings import wifi_key
from tests.firmware_scripts.parcels import claim, keys, small_bundle

SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJvO0i6lHwPfTeoD0vXsxZyZrZ1yTTYTJ5X1qQ3rGz0B ann@home\n"
PHRASE, UNTIL_S = "correct horse battery", 4_000_000_000.0
UNTIL = "2096-10-02 07:06 UTC"


def fleet_folder(folder, board="raspberry-pi", platform="trixie-aarch64", wifi="home net", phrase=PHRASE):
    """Make the folder of a fleet ``home`` of two; without ``phrase`` it does not know its Wi-Fi's key."""
    folder.mkdir(exist_ok=True)
    plan = FleetPlan("home", 2, "192.0.2.1", board, "ann", wifi, "GB" if wifi else "")
    (folder / "fleet.toml").write_text(plan_text(plan))
    (folder / "agent.toml").write_text(agent_settings_text(plan))
    (folder / "ssh.pub").write_text(SSH)
    keys(folder)
    small_bundle(folder, platform)
    (folder / "claims").mkdir(exist_ok=True)
    for name in plan.hostnames():
        claim(folder / "claims", f"{name}.json")
        said = json.loads((folder / "claims" / f"{name}.json").read_text())
        (folder / "claims" / f"{name}.json").write_text(
            json.dumps({**said, "claim": f"njc_secret_of_{name}_0123456789"})
        )
    (folder / "claims-until.json").write_text(json.dumps(dict.fromkeys(plan.hostnames(), UNTIL_S)))
    if wifi and phrase:
        (folder / "wifi-key.json").write_text(json.dumps({"ssid": wifi, "key": wifi_key(wifi, phrase)}))
    return folder
