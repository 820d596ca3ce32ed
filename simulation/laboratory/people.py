"""The split of a corpus: who trains, who is held out, and which messages measure the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nightjar.models.corpora import Corpus
from nightjar.models.vocabulary import words
from nightjar.simulation.laboratory.experiment import EvaluationSettings, SplitSettings
from nightjar.simulation.warm_start import seeded
from nightjar.wire.errors import CorpusError


@dataclass(frozen=True, slots=True)
class People:
    """The people of one run. Nobody and no message is in two parts."""

    public: tuple[str, ...]  # messages of the people whose text is public
    train: tuple[tuple[str, ...], ...]  # messages of each person who trains, oldest first
    later: tuple[tuple[str, ...], ...]  # later messages of each of them: of the validation part, or of the test
    measured: tuple[str, ...]  # those of all of them that the model is measured on
    outside: tuple[tuple[str, ...], ...]  # messages of each person who never trains
    held_out: tuple[str, ...]  # those of all of them that the model is measured on


def divide(corpus: Corpus, split: SplitSettings, evaluation: EvaluationSettings, seed: int, cohort: int) -> People:
    """Divide a corpus, whose messages are oldest first; those without a word are left out.

    Raises:
        CorpusError: too few people have enough messages; a cohort must be left to train.
    """
    spoken = {user: [m for m in messages if words(m)] for user, messages in corpus.users.items()}
    able = [messages for messages in spoken.values() if len(messages) >= split.minimum_messages]
    order = [able[i] for i in seeded(seed, "people").permutation(len(able)).tolist()]
    held_out, public = (round(share * len(order)) for share in (split.held_out_people, split.public_people))
    training = order[held_out + public :]
    if len(training) < cohort or (split.public_people and not public) or (split.held_out_people and not held_out):
        msg = (
            f"corpus {corpus.name!r}: a cohort of {cohort} needs as many people with at least "
            f"{split.minimum_messages} messages, beside those held out and public; {len(able)} of {len(spoken)} people "
            f"have so many, which leaves {len(training)}: {cohort - len(training)} are missing"
        )
        raise CorpusError(msg)
    later = []
    for messages in training:
        first, last = round(split.train * len(messages)), round((split.train + split.validation) * len(messages))
        later.append(tuple(messages[first:last] if evaluation.part == "validation" else messages[last:]))
    return People(
        public=tuple(m for messages in order[held_out : held_out + public] for m in messages),
        train=tuple(tuple(messages[: max(1, round(split.train * len(messages)))]) for messages in training),
        later=tuple(later),
        measured=_drawn(later, evaluation.messages, seed, "measured"),
        outside=tuple(map(tuple, order[:held_out])),
        held_out=_drawn(order[:held_out], evaluation.messages, seed, "held out"),
    )


def _drawn(people: Sequence[Sequence[str]], most: int, seed: int, what: str) -> tuple[str, ...]:
    messages = [message for person in people for message in person]
    chosen = sorted(seeded(seed, what).permutation(len(messages))[:most].tolist())
    return tuple(messages[i] for i in chosen)
