"""Makes docs/experiments.md from experiments/results.json and experiments/linear/results.json."""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nightjar.experiments.__main__ import PAGES
from nightjar.experiments.frame import ResultRow
from nightjar.experiments.linear import results as linear
from nightjar.experiments.linear.screening import Screened, screened
from nightjar.experiments.record import CHAT, results
from nightjar.experiments.silos.record import PAGE as SILOS
from nightjar.simulation.laboratory.outcome import Outcome
from scripts.pages import thesis

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "experiments.md"

MOST_COLUMNS = 13
"""With more columns, a table has a line for each figure instead of each result."""
CATALOGUE = "catalogue."
REFUSED = "refused"
"""The measure of rows that count refused combinations."""

_HEAD = """# Experiments

Made by `python -m scripts.pages` from `experiments/results.json`, which has every command. `make experiments` runs the
short form of all pages, `python -m nightjar.experiments.PAGE --form long --data DATA --json` one
(`experiments/data_sets.py` says what DATA holds), `python -m nightjar.experiments --record` keeps rows, `python -m
nightjar.experiments.curves` draws. *Delta*: between measured and pooled; ±: standard deviation of the seeds. All ran on
2 shared cores (x86-64), but on an H100 or H200 with `--jax` or where a row says so.
"""
_STRATEGIES = """
## The catalogue of strategies

`experiments.catalogue.NAME`: {made}.

*Beside*: what else was measured on the same seeds; *cost*: at which each method first reached an accuracy. A win takes
twice the standard error of paired seeds.

![error against simulated time, by family](images/communication.svg)

"""

_REFUSED = """
Strategies that are refused, with the reason:

"""
_CHAT = """
## Chat

Results of [the laboratory](laboratory.md) (`python -m nightjar.experiments.record`), and [what follows](learning.md).
Top-1/top-3 recall in %; *new*: people who never train.

|run|part|start|recall|new|one place|trigram|B up|B down|seeds|code|
|---|---|---|---|---|---|---|---|---|---|---|
"""


_SUMS = """
## Updates that can be summed

```sh
python -m nightjar.experiments.linear --corpus chat.tsv --commit COMMIT   # --screen for the second table
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
*next*: to that of the next round's, as a part of dense's own.

|model|compressor|bytes|down|cosine|next|
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    sums = "".join(_row(each) for each in linear.compared(linear.results()))
    beside = "".join(_screened(each) for each in screened())
    chat = "".join(_chat(each, each.outcome) for each in results() if each.outcome)
    catalogue = [each for name in PAGES if name.startswith(CATALOGUE) for each in _rows(name)]
    others = "".join(_section(name) for name in (*PAGES, SILOS) if not name.startswith(CATALOGUE))
    compared = [each for each in catalogue if each.measure != REFUSED]
    refused = "".join(_refused(each) for each in catalogue if each.measure == REFUSED)
    return (
        _HEAD
        + others
        + _STRATEGIES.format(made=_made(compared))
        + _table([_strategy(each) for each in compared])
        + _REFUSED
        + refused
        + _CHAT
        + chat
        + _SUMS
        + sums
        + _SCREENED
        + beside
    )


def _rows(name: str) -> list[ResultRow]:
    return [each for each in results() if each.page == name]


def _section(name: str) -> str:
    rows = _rows(name)
    if not rows:
        return ""
    lines = ["", f"## {_title(name)}", "", f"`experiments.{name}`: {_made(rows)}.", ""]
    if any(each.curves for each in rows):
        lines += [f"![curves](images/{name}.svg)", ""]
    if name == "thesis":
        return "\n".join([*lines, *thesis.tables(rows, _short)])
    notes = list(dict.fromkeys(each.note for each in rows if each.note))
    groups = [_cells(each, with_outcome=len(notes) > 1) for each in _alike(rows)]
    tables = [_table(_tall(cells) if _is_tall(cells) else cells) for cells in groups]
    return "\n".join([*lines, *tables, *(f"- {note}" for note in notes[:1] if len(notes) == 1)]).rstrip("\n") + "\n"


def _alike(rows: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """The rows in groups that share figures."""
    groups: list[list[ResultRow]] = []
    for each in rows:
        group = next((group for group in groups if _share_figures(each, group[-1])), None)
        if group is None:
            groups.append([each])
        else:
            group.append(each)
    return groups


def _title(name: str) -> str:
    """The first line of a page's docstring; read, because not every machine that makes this page has TensorFlow."""
    module = ROOT / "experiments" / name.replace(".", "/")
    source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return (
        (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or name)
        .splitlines()[0]
        .replace("``", "`")
        .rstrip(".")
    )


def _made(rows: Sequence[ResultRow]) -> str:
    """How rows were made: form, seeds and code."""
    forms = ", ".join(sorted({each.form for each in rows}, reverse=True))
    seeds = sorted({seed for each in rows for seed in each.seeds})
    return f"{forms}; seeds {', '.join(map(str, seeds))}; {', '.join(sorted({each.commit for each in rows}))}"


def _share_figures(one: ResultRow, other: ResultRow) -> bool:
    return not one.figures or not other.figures or bool(one.figures.keys() & other.figures.keys())


def _cells(rows: Sequence[ResultRow], *, with_outcome: bool) -> list[dict[str, str]]:
    """The cells of each row by column; what all names begin with heads the first column."""
    measure = rows[0].measure if len({each.measure for each in rows}) == 1 else "measured"
    begin = f"{rows[0].name.split(', ')[0]}, "
    shared = begin if len(rows) > 1 and all(each.name.startswith(begin) for each in rows) else ""
    return [
        {
            shared.removesuffix(", ") or "result": each.name.removeprefix(shared),
            measure: _measured(each),
            "printed": _short(each.printed),
            "pooled": _short(each.pooled),
            "delta": _short(each.delta_accuracy),
            **{name: _short(value) for name, value in each.figures.items()},
            **({"outcome": _outcome(each.note)} if with_outcome else {}),
        }
        for each in rows
    ]


def _is_tall(cells: Sequence[Mapping[str, str]]) -> bool:
    return len(cells) == 1 or len(dict.fromkeys(name for each in cells for name in each)) > MOST_COLUMNS


def _tall(cells: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """A column for each result, instead of a line."""
    head, *names = dict.fromkeys(name for each in cells for name in each if any(other.get(name) for other in cells))
    return [{"figure": name, **{each[head]: each.get(name, "") for each in cells}} for name in names]


def _strategy(each: ResultRow) -> dict[str, str]:
    """The cells of a row of the catalogue by column."""
    ends = [f"{name} {_short(value)}" for name, value in each.figures.items() if " to " not in name]
    reached: dict[str, list[str]] = {}
    for name, value in each.figures.items():
        target, comma, method = name.partition(", ")
        if comma and " to " in target:
            reached.setdefault(target, []).append(f"{method} {_short(value)}")
    return {
        "strategy": f"[{each.name}](images/{each.page}.svg)" if each.curves else each.name,
        "accuracy": _measured(each),
        "beside": "; ".join(ends),
        "pooled": _short(each.pooled),
        "cost": "; ".join(f"{target}: {', '.join(methods)}" for target, methods in reached.items()),
        "outcome": _outcome(each.note),
    }


def _outcome(note: str) -> str:
    """What a note says of the row's method (``experiments/comparing.py``), without its name."""
    said = re.sub(r"^.*?:? (?=ends highest|reaches [\d.]+ first|did not win|no difference|one seed)", "", note)
    return re.sub(r"^(no difference)[^.]*", r"\1", said).rstrip(".")


def _refused(each: ResultRow) -> str:
    which = each.note.removeprefix("Refused: ").rstrip(".")
    count = f"{_short(each.measured)} of {_short(each.figures.get('of'))}"
    return f"- {each.name.removeprefix('strategies refused ')}, {count}{': ' if which else ''}{which}\n"


def _measured(each: ResultRow) -> str:
    spread = "" if each.spread is None else f"±{_short(each.spread)}"
    return f"{'>' * each.bound}{_short(each.measured)}{spread}"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """A table without the columns in which nothing stands."""
    names = dict.fromkeys(name for each in rows for name in each)
    columns = [name for name in names if any(each.get(name) for each in rows)]
    lines = [columns, ["---"] * len(columns), *([each.get(name, "") for name in columns] for each in rows)]
    return "".join(f"|{'|'.join(cells)}|\n" for cells in lines)


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def _chat(each: ResultRow, found: Outcome) -> str:
    def pair(top1: float | None, top3: float | None, new: float | None = None) -> str:
        known = "" if top1 is None or top3 is None else f"{100 * top1:.2f}/{100 * top3:.2f}"
        return known if new is None else f"{known}, new {100 * new:.2f}"

    cells = (
        each.name.removeprefix(CHAT),
        found.part,
        f"{100 * found.top1_start:.2f}",
        pair(found.top1, found.top3),
        pair(found.held_out_top1, found.held_out_top3),
        pair(found.central_top1, found.central_top3, found.central_held_out_top1),
        pair(found.trigram_top1, found.trigram_top3, found.trigram_held_out_top1),
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
