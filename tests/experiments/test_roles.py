import pytest

from nightjar.experiments.roles import roles
from nightjar.wire.errors import ConfigError


def test_a_role_is_of_its_play_and_needs_enough_speeches(tmp_path):
    (tmp_path / "lear.txt").write_text("Kent:\nSee better.\n\nLear:\nNow,\nby Apollo.\n\nKent:\n[Aside] Do;\n")
    (tmp_path / "other.md").write_text("# ACT I\n\n**KENT**  \nNo.\n")
    (tmp_path / "more.tsv").write_text("user\ttext\nlear/FOOL\tCan you make no use\nlear/FOOL\tof nothing\n")
    assert roles(tmp_path, 2) == {
        "lear/KENT": ["See better.", "Do;"],
        "lear/FOOL": ["Can you make no use", "of nothing"],
    }
    assert roles(tmp_path, 1)["other/KENT"] == ["No."]


def test_a_folder_without_labelled_speakers_is_refused(tmp_path):
    (tmp_path / "prose.txt").write_text("It was a dark night.")
    with pytest.raises(ConfigError, match="expected"):
        roles(tmp_path, 1)
