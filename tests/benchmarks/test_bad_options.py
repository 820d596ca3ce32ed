"""A benchmark that cannot be run as asked says why in a line and ends with 2, before it has measured anything."""

import pytest
from click.testing import CliRunner

from nightjar.benchmarks import codec, device, first_day, keyboard, suggestion
from nightjar.benchmarks.attack import __main__ as attack

BAD_OPTIONS = [
    (attack.main, ["--corpus", "{missing}"], "there is no corpus file"),
    (attack.main, ["--defences", "magic"], "expected one of default, household, hundreds"),
    (attack.main, ["--defences", "bulyan"], "would not learn"),
    (attack.main, ["--shares", "0,1"], "'0,1'"),
    (attack.main, ["--attacks", "sign-flip,rain"], "expected some of sign-flip"),
    (codec.main, ["--corpus", "{missing}"], "there is no corpus file"),
    (codec.main, ["--corpus", "{columns}"], "the columns user and text"),
    (codec.main, ["--codec", "zip"], "'--codec'"),
    (codec.main, ["--clients", "0"], "'--clients'"),
    (codec.main, ["--model", "huge"], "'tiny' or 'gboard'"),
    (device.main, ["--runtime", "onnx"], "'--runtime'"),
    (device.main, ["--rounds", "0"], "'--rounds'"),
    (first_day.main, [], "'--corpus'"),
    (first_day.main, ["--corpus", "{columns}", "--model", "huge"], "'--model'"),
    (first_day.main, ["--corpus", "{columns}", "--words", "0"], "'--words'"),
    (keyboard.main, ["--corpus", "{missing}"], "there is no corpus file"),
    (keyboard.main, ["--corpus", "{columns}"], "the columns user and text"),
    (keyboard.main, ["--phones", "-1"], "'--phones'"),
    (keyboard.main, ["--messages", "4"], "'--messages'"),
    (keyboard.main, ["--passes", "-1"], "'--passes'"),
    (keyboard.main, ["--model", "huge"], "'--model'"),
    (keyboard.main, ["--seed", "-1"], "'--seed'"),
    (keyboard.main, ["--phones", "100000"], "100000"),
    (suggestion.main, ["--key-presses", "0"], "'--key-presses'"),
]


@pytest.mark.parametrize(("command", "options", "said"), BAD_OPTIONS, ids=lambda value: str(value)[:40])
def test_bad_options_are_said_in_a_line(command, options, said, tmp_path):
    columns = tmp_path / "columns.tsv"
    columns.write_text("when\twhat\n1\thello\n")
    places = {"missing": tmp_path / "missing.tsv", "columns": columns}
    done = CliRunner().invoke(command, [option.format(**places) for option in options])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr
    assert done.stdout == ""
