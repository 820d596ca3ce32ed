import pytest

from nightjar.wire.errors import CorpusError
from tests.lazily import NEEDS_TENSORFLOW, Lazy

making = Lazy("nightjar.models.pretraining.making")
pytestmark = [*NEEDS_TENSORFLOW, pytest.mark.slow]


def test_a_corpus_of_too_few_people_is_refused_instead_of_training_on_nothing(tmp_path):
    corpus = tmp_path / "few.tsv"
    corpus.write_text("user\ttext\n" + "".join(f"u{n}\tthe cat sat on the mat\n" for n in range(3)))
    asked = making.PretrainingOptions(corpus, tmp_path / "out", None, "en", 7, "", "", names=("tiny",))
    with pytest.raises(CorpusError, match="no word was typed by 5 people after the same words"):
        making.pretrain(asked, lambda _line: None, lambda _what, _done, _steps: None)
