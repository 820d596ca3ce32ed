"""The pages of docs/ that are made from the code are what the code says now."""

import pytest

from scripts.pages import asyncapi, configuration, experiments, learning, message_schema, report_files, round

PAGES = [
    *(asyncapi, configuration, experiments, learning, message_schema, round),
]


@pytest.mark.parametrize("made", PAGES, ids=lambda made: made.PAGE.name)
def test_a_generated_page_is_up_to_date(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run python -m scripts.pages"


@pytest.mark.slow
def test_the_files_of_a_report_are_those_of_a_recording():
    assert report_files.PAGE.read_text(encoding="utf-8") == report_files.page(), "run python -m scripts.pages"
