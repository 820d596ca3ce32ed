import pytest

from nightjar.experiments.codec_study.__main__ import main
from nightjar.experiments.codec_study.population import POPULATIONS
from nightjar.experiments.codec_study.results import append, read
from nightjar.experiments.codec_study.variants import VARIANTS
from tests.experiments.codec_study.test_results import training

CORPUS = "user\ttext\n" + "".join(f"u{user}\thello there {n}\n" for user in range(3) for n in range(3))


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text(CORPUS)
    return path


def ended(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--corpus", "missing.tsv"], "no corpus file"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(capsys, arguments, expected):
    assert ended(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert expected in said


def test_too_small_a_corpus_is_one_clear_line(corpus, capsys):
    assert ended(["--corpus", str(corpus)]) == 2
    assert "40 clients need" in capsys.readouterr().err


def test_what_is_finished_is_not_run_again(corpus, tmp_path, capsys):
    done = tmp_path / "done.jsonl"
    for population in POPULATIONS:
        kind = {"corpus": corpus.name, "population": population.name, "rounds": population.rounds}
        for number, variant in enumerate(VARIANTS, 1):
            append(done, training(variant.name, report_bytes=100.0 * number, **kind))
    before = read(done)
    assert ended(["--corpus", str(corpus), "--seeds", "1", "--json", str(done)]) == 0
    assert read(done) == before
    said = capsys.readouterr().out
    assert all(variant.name in said for variant in VARIANTS)
