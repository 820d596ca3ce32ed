"""The CSV list of a fleet's cards: one line per card, with its target disk and its host name.

::

    target,hostname,serial
    /dev/sdb,porch-01,000000001206
    /dev/sdc,porch-02,000000001207

``serial`` is the serial number that the disk must have (needed with ``--yes``); it may be empty. Other columns are
passed on to the customisation of the card.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from nightjar.firmware_scripts.core.host_settings import HOSTNAME
from nightjar.wire.errors import ConfigError

MAX_CARDS = 1_000


@dataclass(frozen=True, slots=True)
class Card:
    """One line of the list: the card's disk, host name and expected serial number, and the other columns by name."""

    target: str
    hostname: str
    serial: str
    others: Mapping[str, str]


def parse_cards(text: str) -> tuple[Card, ...]:
    r"""Parse a list of cards.

    Raises:
        ConfigError: the list is invalid; the message names every fault.

    >>> parse_cards("target,hostname\n/dev/sdb,porch-01\n")[0].hostname
    'porch-01'
    """
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        columns = reader.fieldnames or []
        rows = list(reader)
    except csv.Error as error:
        msg = f"the list of cards is no CSV: {error}"
        raise ConfigError(msg) from error
    faults = [f"there is no column {name!r}" for name in ("target", "hostname") if name not in columns]
    faults += [f"column {name!r} is there twice" for name in sorted({c for c in columns if columns.count(c) > 1})]
    if not faults and not 1 <= len(rows) <= MAX_CARDS:
        faults.append(f"expected 1 to {MAX_CARDS} cards, got {len(rows)}")
    cards: list[Card] = []
    for line, row in enumerate(rows if not faults else [], start=2):
        if None in row or None in row.values():
            faults.append(f"line {line}: has another number of fields than the first line")
            continue
        target, hostname, serial = (row.pop(name, "").strip() for name in ("target", "hostname", "serial"))
        if not target:
            faults.append(f"line {line}: names no target")
        if not HOSTNAME.fullmatch(hostname):
            faults.append(f"line {line}: {hostname[:80]!r} is no host name (a to z, 0 to 9, '-' inside, at most 63)")
        faults += [f"line {line}: target {target!r} is there already" for card in cards if card.target == target]
        faults += [f"line {line}: host {hostname!r} is there already" for card in cards if card.hostname == hostname]
        cards.append(Card(target, hostname, serial, row))
    if faults:
        msg = "the list of cards cannot be used:\n  " + "\n  ".join(faults)
        raise ConfigError(msg)
    return tuple(cards)
