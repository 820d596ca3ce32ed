import json

import pytest
from click.testing import CliRunner

from benchmarks.averaging import main

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def test_both_arithmetics_are_timed_and_give_the_same_bits():
    done = CliRunner().invoke(main, ["--json", "--model", "tiny", "--reports", "25", "--rounds", "1"])
    assert done.exit_code == 0, done.output
    numpy_row, tensorflow_row = json.loads(done.stdout.splitlines()[-1])["averaging"]
    assert (numpy_row["arithmetic"], tensorflow_row["arithmetic"]) == ("numpy", "tensorflow")
    assert numpy_row["same_bits"]
    assert tensorflow_row["same_bits"]
    assert tensorflow_row["why"]
