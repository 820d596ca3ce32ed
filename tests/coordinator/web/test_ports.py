"""What every page uses."""

from types import SimpleNamespace

import pytest

from nightjar.coordinator.web.ports import Site


@pytest.mark.parametrize(
    ("task_type", "figures"),
    [
        ("keyboard", ("top-1 recall", "top-3 recall")),
        ("classification", ("accuracy", "top-3 accuracy")),
        ("not-installed", ("top-1", "top-3")),
    ],
)
def test_the_figures_have_the_names_of_the_task_type(task_type, figures):
    site = Site(None, None, lambda _: SimpleNamespace(task_type=task_type), 0.0)
    assert site.figures("manifest") == figures
