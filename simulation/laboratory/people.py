"""The split of a corpus: who trains, who is held out, and which messages measure the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightjar.models.corpora import Corpus
from nightjar.models.vocabulary import words
from nightjar.simulation.laboratory.experiment import EvaluationSettings, SplitSettings
from nightjar.simulation.warm_start import seeded
from nightjar.wire.errors import CorpusError


@dataclass(frozen=True, slots=True)
class People:
    """The people of one run. Nobody and no message is in two parts."""

    public_people: Mapping[str, tuple[str, ...]]  # messages of each person whose text is public, by name
    train: tuple[tuple[str, ...], ...]  # messages of each person who trains, oldest first
    later: tuple[tuple[str, ...], ...]  # later messages of each of them: of the validation part, or of the test
    measured: tuple[str, ...]  # those of all of them that the model is measured on
    outside: tuple[tuple[str, ...], ...]  # messages of each person who never trains
    held_out: tuple[str, ...]  # those of all of them that the model is measured on

    @property
    def public(self) -> tuple[str, ...]:
        """Messages of the people whose text is public."""
        return tuple(message for messages in self.public_people.values() for message in messages)


def divide(corpus: Corpus, split: SplitSettings, evaluation: EvaluationSettings, seed: int, cohort: int) -> People:
    """Divide a corpus, whose messages are oldest first; those without a word are left out.

    Raises:
        CorpusError: too few people have enough messages; a cohort must be left to train.
    """
    spoken = {user: [m for m in messages if words(m)] for user, messages in corpus.users.items()}
    able = [user for user, messages in spoken.items() if len(messages) >= split.minimum_messages]
    active: list[str] = []
    if split.most_active:
        active = sorted(able, key=lambda user: -len(spoken[user]))[: split.most_active]
        able = [user for user in able if user not in active]
        # They are the same people for every seed; then so are the others, and one first model serves all seeds.
        seed_of_people = 0
    else:
        seed_of_people = seed
    order = [able[i] for i in seeded(seed_of_people, "people").permutation(len(able)).tolist()]
    held_out, public = (round(share * len(order)) for share in (split.held_out_people, split.public_people))
    if active:
        public = len(order) - held_out
    training = active or order[held_out + public :]
    if len(training) < cohort or (split.public_people and not public) or (split.held_out_people and not held_out):
        msg = (
            f"corpus {corpus.name!r}: a cohort of {cohort} needs as many people with at least "
            f"{split.minimum_messages} messages, beside those held out and public; {len(able) + len(active)} of "
            f"{len(spoken)} people have so many, which leaves {len(training)}: {cohort - len(training)} are missing"
        )
        raise CorpusError(msg)
    train, later = [], []
    for user in training:
        messages = spoken[user][-split.messages :]
        first, last = round(split.train * len(messages)), round((split.train + split.validation) * len(messages))
        train.append(tuple(messages[: max(1, first)]))
        later.append(tuple(messages[first:last] if evaluation.part == "validation" else messages[last:]))
    outside = [tuple(spoken[user]) for user in order[:held_out]]
    return People(
        public_people={user: tuple(spoken[user]) for user in order[held_out : held_out + public]},
        train=tuple(train),
        later=tuple(later),
        measured=_drawn(later, evaluation.messages, seed, "measured"),
        outside=tuple(outside),
        held_out=_drawn(outside, evaluation.messages, seed, "held out"),
    )


def _drawn(people: Sequence[Sequence[str]], most: int, seed: int, what: str) -> tuple[str, ...]:
    messages = [message for person in people for message in person]
    chosen = sorted(seeded(seed, what).permutation(len(messages))[:most].tolist())
    return tuple(messages[i] for i in chosen)
