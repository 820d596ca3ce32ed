"""Plug-ins of installed packages."""

from __future__ import annotations

import pytest

from host.plugins import plugins


@pytest.fixture
def package(tmp_path, monkeypatch):
    about = tmp_path / "weather-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(
        "[nightjar.tests]\nrain = weather_of_a_test:Rain\nsnow = weather_of_a_test:Snow\n"
    )
    (tmp_path / "weather_of_a_test.py").write_text("class Rain:\n    falls = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield
    plugins.cache_clear()


@pytest.mark.usefixtures("package")
def test_a_plug_in_is_found_with_its_package_and_one_that_cannot_be_loaded_says_why():
    found = plugins("nightjar.tests")
    assert found["rain"].value.falls
    assert (found["rain"].package, found["rain"].version) == ("weather", "1.2")
    assert "Snow" in found["snow"].fault
