import tomllib

import pytest

from nightjar.coordinator.commands.upkeep import init
from nightjar.coordinator.config_file import load_config
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.core.cards import parse_cards
from nightjar.firmware_scripts.core.fleet_plan import (
    BOARDS,
    FleetPlan,
    agent_settings_text,
    cards_text,
    check_plan,
    coordinator_settings,
    next_steps,
    plan_text,
    read_plan,
)
from nightjar.firmware_scripts.image.making import boards
from nightjar.wire.errors import ConfigError
from nightjar.wire.limits import Limits
from tests.coordinator.model_folder import write_model

HOME = FleetPlan("home", 3, "192.0.2.7", user="ann", wifi='our "net"', wifi_country="GB")


def test_the_file_of_the_answers_can_be_read_again():
    assert read_plan(plan_text(HOME)) == HOME


@pytest.mark.parametrize(
    "text", ["name = ", 'name = "a"', plan_text(HOME) + "more = 1\n", plan_text(HOME).replace("3", "true")]
)
def test_other_files_are_refused(text):
    with pytest.raises(ConfigError, match="fleet"):
        read_plan(text)


def test_every_answer_that_is_of_no_use_is_named():
    with pytest.raises(ConfigError) as raised:
        check_plan(FleetPlan("My Home", 1, "a b", "toaster", wifi_country="GB"))
    assert [line.split(":")[0].strip() for line in str(raised.value).splitlines()[1:]] == [
        "name",
        "devices",
        "address",
        "board",
        "wifi_country",
    ]


@pytest.mark.parametrize("devices", [2, 3, 9, 10, 11, 40, 50, 1000])
def test_the_coordinator_and_the_devices_take_the_settings(devices, tmp_path):
    write_model(tmp_path / "model")
    plan = FleetPlan("home", devices, "127.0.0.1")
    path = tmp_path / "coordinator.toml"
    pairs = [f"{name}={value}" for name, value in coordinator_settings(plan).items()]
    given = tuple(pair.replace("True", "true").replace("False", "false") for pair in pairs)
    init.callback(path, given, fleet=plan.size, key=False, model="none", as_json=True)
    config = load_config(path, {})
    assert (config.population, config.host, config.broker.host) == ("home", "127.0.0.1", "127.0.0.1")
    assert (
        config.limits.household
        is (devices < 10)
        is Limits(**tomllib.loads(agent_settings_text(plan)).get("limits", {})).household
    )
    assert config.task.minimum <= config.task.goal <= devices
    small_steps = config.task.strategy.name == "fedavg"
    assert small_steps is (devices < 50), "the words of a few people are soon learned by heart"


def test_only_the_disks_are_missing_in_the_list_of_cards():
    filled = (
        cards_text(HOME).replace("\n,", "\n/dev/sdb,", 1).replace("\n,", "\n/dev/sdc,", 1).replace("\n,", "\n/dev/sdd,")
    )
    assert tuple(card.hostname for card in parse_cards(filled)) == HOME.hostnames() == ("home-01", "home-02", "home-03")


@pytest.mark.parametrize("board", BOARDS.items())
def test_every_board_has_a_bundle_and_an_image(board):
    name, what = board
    platform_named(what.platform)
    assert name.startswith("raspberry-pi") or name in boards()


def test_three_commands_lead_to_a_card():
    commands = [line for line in next_steps(HOME, "home").splitlines() if line.startswith("  ")]
    assert len(commands) == 3
    assert "--fleet home --hostname home-01" in commands[-1]
