from itertools import islice

from nightjar.edge_agent.commands.conditions import looks
from nightjar.edge_agent.config import load
from nightjar.edge_agent.core.eligibility import Condition, EligibilityRun


def test_every_condition_has_a_value_a_source_and_a_reason(place):
    place.move_in("hello there")
    found = place.json("conditions")
    assert found["eligible"]
    assert set(found["conditions"]) == {condition.value for condition in Condition}
    for reading in found["conditions"].values():
        assert reading["value"] in {"yes", "no", "unknown"}
        assert reading["source"]
        assert reading["reason"]
        assert reading["rule"] in {"required", "unless-unknown", "ignored"}


def test_a_device_that_may_not_train_says_why_and_ends_with_status_4(place):
    place.move_in("hello there")
    place.tree.supply("BAT0", status="Discharging")
    said = place.run("conditions", status=4)
    assert said.startswith("phone: not eligible: not charging")
    assert place.json("conditions", status=4)["cause"] == "unplugged"


def test_no_examples_yet_is_a_reason_too(place):
    assert place.json("conditions", status=4)["reason"] == "no examples yet"
    assert not place.data.exists(), "looking makes nothing"


def test_a_folder_of_examples_counts_as_it_does_for_the_agent(place):
    folder = place.config.parent / "examples"
    folder.mkdir()
    (folder / "a.csv").write_text("height,label\n1,cat\n2,dog\n3,cat\n")
    place.write(more='[store]\nexamples = "examples"\n')
    assert place.json("conditions")["eligible"]
    assert "has-examples: yes: has examples" in place.run("doctor", status=4)


def test_a_rule_that_is_ignored_is_shown_and_decides_nothing(place):
    place.move_in("hello there")
    place.write(conditions='ignored = ["charging"]\n')
    place.tree.supply("BAT0", status="Discharging")
    found = place.json("conditions")
    assert found["conditions"]["charging"]["value"] == "no"
    assert found["eligible"]


def test_watching_waits_for_the_hysteresis_time_and_sees_a_change(place):
    place.move_in("hello there")
    config = load(place.config, {})
    watching = looks(config)
    assert next(watching).run is EligibilityRun.SETTLING
    assert any(look.run is EligibilityRun.FIT for look in islice(watching, 500))
    place.tree.supply("BAT0", status="Discharging")
    assert next(watching).headline == "not eligible: not charging"
    watching.close()


def test_emulated_is_written_beside_the_name(place):
    place.write(more="[emulator]\nstart_hour = 2.0")
    assert place.run("conditions", status=4).startswith("phone, emulated: ")
    assert place.json("conditions", status=4)["emulated"]
