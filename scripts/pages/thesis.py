"""The thesis' five tables for docs/experiments.md: of each cell what is printed, a slash, and what was measured."""

from collections.abc import Callable, Mapping, Sequence

from nightjar.experiments.frame import ResultRow
from nightjar.experiments.thesis_cells import CELLS, TableCell

Key = Callable[[TableCell], str]


def tables(rows: Sequence[ResultRow], short: Callable[[float | None], str]) -> list[str]:
    """Lines of the tables.

    Args:
        rows: of the page.
        short: writes a figure.
    """
    found = {each.name: each for each in rows}
    ran = sum(each.name in found for each in CELLS)
    lines = [
        f"Printed/measured; >: stopped; {ran} of {len(CELLS)} cells ran. "
        "Six cells of 5-3 (small batches) are left out: their heads are lost.",
        "With shards, the last three columns are not in the thesis. Its FedAvg of 2NN, B=100, takes 99 rounds of 30",
        "steps, its central training 11 epochs of 600; averaging lengthens no step, so here it needs more. Targets are",
        "near LeNet-5's limit: stopped, it ended at 0.980 to 0.990 of 0.99, with shards FedAvg at 0.976 or 0.977 of",
        "0.98, and the same FedSGD (B=10, 0.04) took 299 rounds for one table, over 374 for another.",
        "",
    ]
    lines += _table("5-1", found, short, lambda it: f"{it.network},{_how(it)},{it.rate:g}", lambda it: f"B={it.batch}")
    lines += _table("5-2", found, short, lambda it: f"C={it.share:g}", lambda it: f"{it.network},B={it.batch}")
    lines += _table("5-3", found, short, lambda it: it.network, lambda it: f"E={it.passes}")
    return lines + _table("5-4 5-5", found, short, lambda it: f"E={it.passes},B={it.batch}", _column)


def _how(cell: TableCell) -> str:
    return "central" if cell.share is None else "FedSGD"


def _column(cell: TableCell) -> str:
    if cell.method != "fedavg":
        return f"shards,{cell.method}"
    return f"{'shards' if cell.sharded else 'IID'},{'FedAvg' if cell.share else 'FedSGD'}"


def _table(
    which: str, found: Mapping[str, ResultRow], short: Callable[[float | None], str], across: Key, down: Key
) -> list[str]:
    cells = [each for each in CELLS if each.table in which]
    columns = list(dict.fromkeys(map(down, cells)))
    at = {(across(each), down(each)): _cell(each, found.get(each.name), short) for each in cells}
    lines = [f"|{which}|{'|'.join(columns)}|", "|---" * (len(columns) + 1) + "|"]
    names = dict.fromkeys(map(across, cells))
    lines += [f"|{'|'.join([name, *(at.get((name, column), '') for column in columns)])}|" for name in names]
    return [*lines, ""]


def _cell(cell: TableCell, row: ResultRow | None, short: Callable[[float | None], str]) -> str:
    measured = "" if row is None else f"{'>' * row.bound}{short(row.measured)}"
    return f"{short(cell.printed)}/{measured}"
