"""Makes docs/experiments.md from experiments/results.json and experiments/linear/results.json."""

from pathlib import Path

from experiments.linear import results as linear
from experiments.linear.screening import Screened, screened
from experiments.record import Recorded, results

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"

_HEAD = """# Experiments

Results of [the laboratory](laboratory.md), made by `python -m tests.pages` from `experiments/results.json`. `python -m
experiments.record` records a run, `python -m experiments.curves` draws the curves. Top-1 / top-3 recall in %, of
the part that is named: *validation*, on which settings were chosen, or *test*. What follows: [learning](learning.md).

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

| model, start | compressor | rounds | bytes | down | loss | share | late | top-1 % | code |
|---|---|---|---|---|---|---|---|---|---|
"""
_SCREENED = """
Twenty more rounds of the dense training, mean of the last ten. *Cosine*: to the dense mean of the same devices;
*next*: to that of the next round's, as a part of dense's own. A count sketch applies what earlier rounds left, so its
cosines say little.

| model | compressor | bytes | down | cosine | next |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    sums = "".join(_row(each) for each in linear.compared(linear.results()))
    beside = "".join(_screened(each) for each in screened())
    return _HEAD + "\n".join(_section(each) for each in results()) + _SUMS + sums + _SCREENED + beside


def _screened(each: Screened) -> str:
    sizes = f"{each.report_bytes:,} | {each.bytes_down:,}"
    return f"| {each.model} | {each.variant} | {sizes} | {each.cosine:.2f} | {each.next_cosine:.2f} |\n"


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
    return f"| {' | '.join(cells)} |\n"


def _section(each: Recorded) -> str:
    found = each.outcome
    references = [
        f"{name} {100 * top1:.2f} / {100 * top3:.2f}"
        for name, top1, top3 in (
            ("one place", found.central_top1, found.central_top3),
            ("trigram", found.trigram_top1, found.trigram_top3),
        )
        if top1 is not None and top3 is not None
    ]
    people = ""
    if found.held_out_top1 is not None and found.held_out_top3 is not None:
        people = f"; people who never train: {100 * found.held_out_top1:.2f} / {100 * found.held_out_top3:.2f}"
    seeds = ", ".join(map(str, each.seeds))
    lines = [
        f"## {each.name}",
        "",
        "```sh",
        each.command,
        "```",
        "",
        f"- {found.part}: **{100 * found.top1:.2f} / {100 * found.top3:.2f}** ({100 * found.top1_start:.2f} at the "
        f"start), perplexity {found.perplexity:.0f}{people}",
    ]
    if references:
        lines.append("- the same text: " + ", ".join(references))
    if each.printed is not None:
        lines.append(f"- top-1 in the source document: {100 * each.printed:.2f}")
    lines += [
        f"- {found.report_bytes_median:,} B up, {found.bytes_down_median:,} down; seed {seeds}; code {each.commit}",
        "",
    ]
    return "\n".join(lines)
