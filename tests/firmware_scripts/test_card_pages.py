"""The pages about cards and devices name every option, answer and path that there is."""

import re
from pathlib import Path

import click
import pytest

from nightjar.firmware_scripts.__main__ import cli
from nightjar.firmware_scripts.core.image_format import ImageFormat
from nightjar.firmware_scripts.device import installing, releases
from nightjar.firmware_scripts.device.places import Places

DOCS = Path(__file__).parents[2] / "docs"
CUSTOMISING, DEVICE, ANDROID = ((DOCS / f"{name}.md").read_text() for name in ("customising", "bundles", "android"))


def options(command):
    return [max(p.opts, key=len) for p in command.params if isinstance(p, click.Option)]


@pytest.mark.parametrize("option", options(cli.commands["customise"]))
def test_every_option_of_customise_is_on_its_page(option):
    assert f"`{option}`" in CUSTOMISING


@pytest.mark.parametrize("option", options(cli.commands["android"].commands["push"]))
def test_every_option_of_a_push_is_on_its_page(option):
    assert option in ANDROID


def test_every_format_of_images_is_on_the_page():
    assert all(word in CUSTOMISING for word in ("user-data", "firstrun.sh", "nightjar/image.json"))
    assert len(ImageFormat) == 3


def test_every_answer_to_an_offer_is_on_the_page():
    source = Path(releases.__file__).read_text()
    codes = set(re.findall(r'Decline\("([a-z-]+)"', source))
    assert len(codes) == 8
    assert all(f"|`{code}`|" in DEVICE for code in codes)


def test_every_state_of_the_machine_is_in_the_diagram():
    states = {state.__name__ for state, _ in releases.TABLE}
    drawn = set(re.findall(r"(\w+) --> (\w+)", DEVICE.split("```mermaid")[1]))
    assert {name for pair in drawn for name in pair} == states
    legal = {(state.__name__, after.__name__) for (state, _), row in releases.TABLE.items() for after in row.leads_to}
    assert drawn <= legal


def test_paths_and_units_on_the_page_are_the_real_ones():
    places = Places()
    for path in (places.current, places.program, places.record, places.status):
        assert f"`{path}`" in DEVICE
    assert installing.TRIES in DEVICE
