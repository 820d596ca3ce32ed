"""What the twins' stories share: one coordinator, one image, and the disk of a device that has settled."""

import pytest

from nightjar.firmware_scripts.twin.running import powered
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture
from tests.firmware_scripts.twin.fleet import Fleet, bundle_of_this_checkout, image_with
from tests.firmware_scripts.twin.over_the_air import Owner
from tests.firmware_scripts.twin.stories import AT_WORK, SETTLED, eventually, switch_off, there, twin_of


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("twins")


@pytest.fixture(scope="package")
def owner(folder):
    return Owner(folder / "owner")


@pytest.fixture(scope="package")
def bundle(folder, owner):
    return bundle_of_this_checkout(folder, owner.root)


@pytest.fixture(scope="package")
def image(bundle, folder):
    return image_with(bundle, folder)


@pytest.fixture(scope="package")
def fleet(folder, exported):  # noqa: F811 - the fixture
    with Fleet(folder, exported.model.program.parent) as found:
        yield found


@pytest.fixture(scope="package")
def settled(image, bundle, fleet, folder):
    """A device that enrolled, whose release counts, and which was switched off in order. Take a copy."""
    twin = twin_of(image, bundle, fleet, folder, "settled")
    with powered(twin, fleet.ports()) as machine:
        eventually(there(twin.guest), f"{SETTLED} && ! {AT_WORK}")
        switch_off(twin, machine)
    return twin
