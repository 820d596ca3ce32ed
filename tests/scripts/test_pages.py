"""The pages of docs/ that are made from the code are what the code says now."""

import pytest

from scripts.pages import asyncapi, configuration, experiments, learning, message_schema, round


@pytest.mark.parametrize(
    "made", [asyncapi, configuration, experiments, learning, message_schema, round], ids=lambda made: made.PAGE.name
)
def test_a_generated_page_is_up_to_date(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run python -m scripts.pages"
