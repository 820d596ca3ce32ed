from nightjar.models.corpora import load
from nightjar.models.vocabulary import words


def test_topics_are_users_and_sentences_are_messages() -> None:
    corpus = load("pydoc", seed=1)
    assert len(corpus.users) > 50
    assert any("assert" in words(message) for message in corpus.users["assert"])
    assert all(len(words(m)) >= 3 for messages in corpus.users.values() for m in messages)
    assert "\n" not in "".join(m for messages in corpus.users.values() for m in messages)
