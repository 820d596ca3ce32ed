"""Makes docs/experiments.md from experiments/results.json and experiments/linear/results.json."""

from pathlib import Path

from experiments.__main__ import PAGES
from experiments.frame import Row
from experiments.linear import results as linear
from experiments.linear.screening import Screened, screened
from experiments.record import results
from experiments.silos import PAGE as SILOS
from simulation.laboratory.outcome import Outcome
from tests.pages import thesis

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"

LENGTHS = ("short", "long")
"""Forms that are recorded; of a row that was made in both, the later is shown."""

_HEAD = """# Experiments

Made by `python -m tests.pages` from `experiments/results.json`, which has every command. `make experiments` runs the
short form of all pages, `python -m experiments.PAGE --form long --data DATA --json` one
(`experiments/data_sets.py` says what DATA holds), `--record` with `python -m experiments` keeps rows, `python -m
experiments.curves` draws. *Delta*: measured and pooled apart; ±: standard deviation of the seeds. Smoke
forms are never recorded; of a row in both other forms, the long one is shown. All ran on x86-64 with 2 shared
cores.

![error against simulated time, by family](images/communication.svg)
"""

_CHAT = """
## Chat

Results of [the laboratory](laboratory.md), recorded by `python -m experiments.record`. Top-1 / top-3 recall in %, on
validation text, which chose the settings, or test text; *new*: people who never train. What follows:
[learning](learning.md).

|run|part|start|recall|new|one place|trigram|B up|B down|seeds|code|
|---|---|---|---|---|---|---|---|---|---|---|
"""


_SUMS = """
## Updates that can be summed

```sh
python -m experiments.linear --corpus chat.tsv --commit COMMIT            # trains with each compressor
python -m experiments.linear --corpus chat.tsv --commit COMMIT --screen   # plays all beside the dense training
```

One seed, validation part, 20 devices a round, FedAdam 0.01; a number has room for the sum of 100. Names:
`low-rank-ROWS-RIGHT-LEFT`; others end in the share of coordinates in %. Bytes are of a report's values; *down*: what a
device needs to encode them. *Share*: the fall of the loss, as a part of dense's after equally many rounds; *late*:
without dense's fall in the first ten rounds, which is mostly word frequency.

![what compressors keep of dense updates, by bytes](images/linear.svg)

|model, start|compressor|rounds|bytes|down|loss|share|late|top-1 %|code|
|---|---|---|---|---|---|---|---|---|---|
"""
_SCREENED = """
Twenty more rounds of the dense training, mean of the last ten. *Cosine*: to the dense mean of the same devices;
*next*: to that of the next round's, as a part of dense's own. A count sketch applies what earlier rounds left, so its
cosines say little.

|model|compressor|bytes|down|cosine|next|
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    sums = "".join(_row(each) for each in linear.compared(linear.results()))
    beside = "".join(_screened(each) for each in screened())
    chat = "".join(_chat(each, each.outcome) for each in results() if each.outcome)
    return _HEAD + "".join(map(_section, (*PAGES, SILOS))) + _CHAT + chat + _SUMS + sums + _SCREENED + beside


def _section(name: str) -> str:
    recorded = [each for each in results() if each.page == name]
    longest = {each.name: each for each in sorted(recorded, key=lambda each: LENGTHS.index(each.form))}
    rows = [each for each in recorded if longest[each.name] is each]
    if not rows:
        return ""
    lines = ["", f"## `{name}`", ""]
    if any(each.curves for each in rows):
        lines += [f"![curves of {name}](images/{name}.svg)", ""]
    if name == "thesis":
        return "\n".join([*lines, *thesis.tables(rows, _short)])
    lines += [
        "|result|measure|printed|measured|pooled|delta|more|form, seeds, code|",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        more = ", ".join(f"{key} {_short(value)}" for key, value in each.figures.items())
        spread = "" if each.spread is None else f"±{_short(each.spread)}"
        measured = f"{'>' * each.bound}{_short(each.measured)}{spread}"
        others = (_short(each.pooled), _short(each.delta_accuracy))
        cells = [each.name, each.measure, _short(each.printed), measured, *others]
        made = f"{each.form}, {'+'.join(map(str, each.seeds))}, {each.commit}"
        lines.append("|" + "|".join([*cells, more, made]) + "|")
    which = (lambda each: f"{each.name}: {each.note}") if len(rows) > 1 else (lambda each: each.note)
    notes = [which(each) for each in rows if each.note]
    return "\n".join([*lines, *([""] if notes else []), *(f"- {note}" for note in notes), ""])


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def _chat(each: Row, found: Outcome) -> str:
    def pair(top1: float | None, top3: float | None) -> str:
        return "" if top1 is None or top3 is None else f"{100 * top1:.2f} / {100 * top3:.2f}"

    cells = (
        each.name.removeprefix("Chat, "),
        found.part,
        f"{100 * found.top1_start:.2f}",
        pair(found.top1, found.top3),
        pair(found.held_out_top1, found.held_out_top3),
        pair(found.central_top1, found.central_top3),
        pair(found.trigram_top1, found.trigram_top3),
        f"{found.report_bytes_median:,}",
        f"{found.bytes_down_median:,}",
        "+".join(map(str, each.seeds)),
        each.commit,
    )
    return f"|{'|'.join(cells)}|\n"


def _screened(each: Screened) -> str:
    sizes = f"{each.report_bytes:,}|{each.bytes_down:,}"
    return f"|{each.model}|{each.variant}|{sizes}|{each.cosine:.2f}|{each.next_cosine:.2f}|\n"


def _row(each: linear.ComparedRun) -> str:
    found = each.trained
    cells = (
        f"{found.model}, {found.start}",
        found.variant,
        f"{found.rounds}",
        f"{found.report_bytes:,}",
        f"{found.bytes_down:,}",
        f"{found.losses[found.rounds]:.3f}",
        f"{each.share:.2f}",
        f"{each.late_share:.2f}",
        f"{100 * found.top1:.1f}",
        found.commit,
    )
    return f"|{'|'.join(cells)}|\n"
