"""Recall of the keyboards of a small run, with artifacts that are served from its folder."""

import http.server
import threading

import pytest

from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.folder import MANIFEST, WEIGHTS, write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.simulation.demo.keyboards import recall_by_version
from nightjar.wire.errors import UnavailableError

SHAPE = ModelConfiguration("tiny", max_vocabulary=40, embedding=6, hidden=9)
PUBLIC = ["one two three four", "two three four one"] * 5
TYPED = ["four two one three"] * 30


@pytest.fixture
def run(tmp_path):
    vocabulary = Vocabulary.build(PUBLIC, 40)
    ngram = compile_ngram([vocabulary.encode(words(text)) for text in PUBLIC], vocabulary.size)
    weights = initial_weights(SHAPE, vocabulary.size, seed=1)
    manifest = write_model_folder(tmp_path / "model", SHAPE, vocabulary, b"program", weights, ngram=ngram)
    (tmp_path / "phone-01").mkdir()
    (tmp_path / "phone-01" / "messages.txt").write_text("\n".join(TYPED), encoding="utf-8")
    rows = [f"phone-01\t{text}" for text in (TYPED[0], "four two one unheard three")]
    (tmp_path / "held_out.tsv").write_text("\n".join(["user\ttext", *rows]), encoding="utf-8")
    files = {manifest.sha256: MANIFEST, manifest.weights.sha256: WEIGHTS}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            file = files.get(self.path.rpartition("/")[2])
            self.send_response(404 if file is None else 200)
            self.end_headers()
            if file is not None:
                self.wfile.write((tmp_path / "model" / file).read_bytes())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}", manifest.sha256
        server.shutdown()


def test_the_keyboard_knows_what_its_user_writes_and_only_words_of_the_vocabulary_count(run):
    folder, url, manifest = run
    found = recall_by_version(folder, url, {0: manifest})
    assert (found.versions, found.words) == ([0], 8)
    # Nobody knows what follows a word outside the vocabulary.
    assert found.keyboard[0].top1 == found.trigram_history.top1 == 7 / 8
    assert found.model[0].top1 < 7 / 8


def test_it_says_how_many_keystrokes_the_keyboards_save(run):
    folder, url, manifest = run
    found = recall_by_version(folder, url, {0: manifest})
    # All words but the first, and the unheard one, are the best suggestion: one tap each.
    assert found.saved_first == found.saved_last
    assert found.saved_last > 0.5
    assert found.saved_without > 0.5


def test_a_version_that_is_not_there_is_unavailable(run):
    folder, url, _ = run
    with pytest.raises(UnavailableError, match="404"):
        recall_by_version(folder, url, {0: "0" * 64})
