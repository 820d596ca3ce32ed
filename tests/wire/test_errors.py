"""The tree of errors."""

import copy

from nightjar.wire.errors import ExamplesError


def test_a_copy_of_an_error_of_examples_has_its_problem():
    error = copy.copy(ExamplesError("rows.csv line 2: expected a label", "labels-missing"))
    assert (str(error), error.problem) == ("rows.csv line 2: expected a label", "labels-missing")
