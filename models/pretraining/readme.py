"""The README of a folder of pre-trained models: what they were made from, the rules, and what they know."""

from __future__ import annotations

from collections.abc import Mapping

from nightjar.models.pretraining.examples import CONTEXT, LEAST_PEOPLE_OF_PAIR
from nightjar.models.pretraining.training import PretrainingPlan
from nightjar.models.pretraining.word_rule import COMMONEST
from nightjar.models.shipped import MadeFrom


def readme(about: MadeFrom, plans: Mapping[str, PretrainingPlan]) -> str:
    """The text, in Markdown."""
    when = f" before {about.before}" if about.before else ""
    return f"""# Pre-trained models

Made from {about.messages:,} messages ({about.words:,} words) that {about.people:,} people wrote{when}.

Source: {about.source or "not named"}

SHA-256 of the file: `{about.text_sha256}`; of the messages used: `{about.used_sha256}`.

```sh
{about.command}
```

{_training(about, plans)}

## They name nobody

- Words: typed by at least {about.least_people_of_words} people, or among wordfreq's {COMMONEST:,} commonest. No
  nickname, and no word that is mostly used as a part of one or to address somebody, unless pyspellchecker's dictionary
  has it.
- N-grams: typed by at least {about.least_people} people each; words of fewer are equally probable.
- Weights: a word is a target of the training if at least {about.least_people} people typed it after the same
  {CONTEXT - 1} words; and once for each person, if at least {LEAST_PEOPLE_OF_PAIR} people typed it after the last of
  them. What fewer people typed is read, but not learned. A model also reads the words further back, so a phrase whose
  every pair of words is usual can be learned from fewer people.

`tests/models/pretraining/test_memory.py` types secrets and attacks the models. What the rule of the weights costs, and
what was rejected, is in `docs/adr/0055-what-a-first-model-may-learn.md`.

## What they know

{_recall(about)}"""


def _training(about: MadeFrom, plans: Mapping[str, PretrainingPlan]) -> str:
    return "\n".join(
        f"- `{name}`: {plan.passes:g} passes, rate {plan.learning_rate:g} falling linearly, gradients clipped at "
        f"{plan.clip_norm:g}, seed {about.seed}"
        for name, plan in plans.items()
    )


def _recall(about: MadeFrom) -> str:
    if not about.recall:
        return "Not measured: nobody is outside.\n"
    lines = [
        f"Top-1 / top-3 recall in %, of {about.outside_people:,} people whose first message was written later, before",
        "the first letter, words of the vocabulary. The trigram is a whole Kneser-Ney trigram of the same text without",
        "any rule. Rounding the weights to float16 costs the difference to float32.",
        "",
        "|model|words|weights, float16|float32|n-gram|trigram|",
        "|---|---|---|---|---|---|",
    ]
    for name, found in about.recall.items():
        each = (found.weights, found.unrounded, found.ngram, found.trigram)
        shown = "|".join(f"{100 * one.top1:.2f} / {100 * one.top3:.2f}" for one in each)
        lines.append(f"|`{name}`|{found.counted:,}|{shown}|")
    return "\n".join(lines) + "\n"
