"""The entropy coder: interleaved rANS with adaptive statistics.

*rANS* keeps a number x. Coding a symbol with probability f / 2**14 makes x about 2**14 / f times larger, and the
overflow is written as 16-bit words. One such number is inherently sequential, so there are L of them, the *lanes*:
symbol i of a step belongs to lane i, and numpy processes all lanes at once.

*Adaptation.* A stream is coded in blocks: 64 symbols, then as many again as were coded so far. Before each block, both
ends recompute the table of every context from its prior and the symbols seen so far. Neighbours in a stream are
similar, so the stream is interleaved first (:func:`stride_order`), and even the first block samples every part of it.

All arithmetic is on integers, so every machine writes the same bytes. A coder that starts at x = 2**16 would waste 16
bits per lane. Here the encoder starts at 2**16 plus 16 bits of data that must be sent anyway, the *filler*. The decoder
ends where the encoder began, and recovers the filler there.

Source: Duda 2013, "Asymmetric numeral systems"; Giesen 2014, "Interleaved entropy coders".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nightjar.wire.codec.fields import refuse

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint16]

SHARE_BITS = 14
"""Probabilities are multiples of 2**-14."""
LOWEST = 1 << 16
"""Between steps, a lane's number is in [2**16, 2**32)."""
SEEN_WEIGHT = 32
"""Added to a symbol's count for each occurrence; priors use the same unit."""
FIRST_BLOCK = 64
LONGEST_BLOCK = 4096

_SHARES = 1 << SHARE_BITS


def stride_order(size: int) -> Ints:
    """The order in which the symbols of a stream are coded: every s-th from the first, then from the second, and so on.

    It is a permutation; s = size // 64, at least 1.

    >>> stride_order(5).tolist(), stride_order(200)[:6].tolist()
    ([0, 1, 2, 3, 4], [0, 3, 6, 9, 12, 15])
    """
    stride = max(size // FIRST_BLOCK, 1)
    table = np.arange(-(-size // stride) * stride).reshape(-1, stride).T.ravel()
    return table[table < size]


def blocks(size: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of each block of a stream.

    >>> list(blocks(300))
    [(0, 64), (64, 128), (128, 256), (256, 300)]
    """
    begin = 0
    while begin < size:
        end = min(size, begin + min(max(begin, FIRST_BLOCK), LONGEST_BLOCK))
        yield begin, end
        begin = end


class Statistics:
    """The adaptive statistics of a stream: one table of symbol counts per context.

    The contexts of the symbols, (m,) int64 below C, are in coding order; the prior, (C, S) int64 >= 1, has the first
    counts.
    """

    def __init__(self, contexts: Ints, prior: Ints) -> None:
        present = np.flatnonzero(np.bincount(contexts.astype(np.intp), minlength=1))
        row_of = np.zeros(len(prior), np.int64)
        row_of[present] = np.arange(present.size)
        self.rows = row_of[contexts]
        self._counts = prior[present]
        self.alphabet = prior.shape[1]

    def shares(self) -> tuple[Ints, Ints]:
        """The current probability tables.

        Returns:
            (rows x S,) share f of each symbol, in units of 2**-14, at least 1; and (rows x S,) where its interval
            begins: row r occupies [r x 2**14, (r + 1) x 2**14).
        """
        counts = self._counts
        total = counts.sum(axis=1, keepdims=True)
        shares = 1 + counts * (_SHARES - self.alphabet) // total
        likeliest = counts.argmax(axis=1)
        shares[np.arange(len(shares)), likeliest] += _SHARES - shares.sum(axis=1)
        flat = shares.ravel()
        return flat, np.cumsum(flat) - flat

    def ideal_bits(self, cells: Ints, rows: Ints) -> float:
        """Cost of these symbols in bits at the current counts: minus the sum of their unrounded log2 probabilities."""
        return float(np.log2(self._counts.sum(axis=1)[rows] / self._counts.ravel()[cells]).sum())

    def update_counts(self, cells: Ints) -> None:
        """Count coded symbols, each given as row x S + symbol."""
        seen = np.bincount(cells.astype(np.intp), minlength=self._counts.size)
        self._counts = self._counts + SEEN_WEIGHT * seen.reshape(self._counts.shape)


class LaneEncoder:
    """Collects streams, then codes them in reverse order, as rANS requires.

    ``ideal_bits`` are those that a perfect coder of unlimited precision with the same model would need so far.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._steps: list[tuple[Ints, Ints]] = []  # share and begin (within its table) of each symbol of a step
        self.ideal_bits = 0.0

    def stream(self, symbols: Ints, contexts: Ints, prior: Ints) -> None:
        """Add a stream: symbols (m,) int64 below S, in contexts (m,) int64 below C, with a prior (C, S) int64 >= 1."""
        order = stride_order(symbols.size)
        symbols = symbols[order]
        statistics = Statistics(contexts[order], prior)
        for begin, end in blocks(symbols.size):
            shares, begins = statistics.shares()
            rows = statistics.rows[begin:end]
            cells = rows * statistics.alphabet + symbols[begin:end]
            share = shares[cells]
            start = begins[cells] - rows * _SHARES
            self.ideal_bits += statistics.ideal_bits(cells, rows)
            for at in range(0, end - begin, self._lanes):
                self._steps.append((share[at : at + self._lanes], start[at : at + self._lanes]))
            statistics.update_counts(cells)

    def finish(self, filler: Ints) -> tuple[Ints, Words]:
        """Code all streams and a filler, (L,) int64 below 2**16, which the decoder returns at its end.

        Returns (L,) int64 states at which the decoder begins, and the words in the order in which it reads them.
        """
        states = filler + LOWEST
        words: list[Words] = []
        for share, start in reversed(self._steps):
            lanes = states[: share.size]
            full = lanes >= share << (32 - SHARE_BITS)
            words.append(lanes[full].astype(np.uint16))
            lanes = np.where(full, lanes >> 16, lanes)
            quotient, rest = np.divmod(lanes, share)
            states[: share.size] = (quotient << SHARE_BITS) + rest + start
        return states, np.concatenate(words[::-1]) if words else np.zeros(0, np.uint16)


class LaneDecoder:
    """Decodes the output of :class:`LaneEncoder`; memory and time depend on the requested streams, not on the data."""

    def __init__(self, states: Ints, words: Words) -> None:
        self._states = states.copy()
        self._words = words
        self._at = 0

    def stream(self, contexts: Ints, prior: Ints) -> Ints:
        """Read the symbols (m,) int64 of the next stream; the arguments are the encoder's.

        Raises:
            RemoteProtocolError: the words end too early.
        """
        order = stride_order(contexts.size)
        statistics = Statistics(contexts[order], prior)
        coded = np.empty(contexts.size, np.int64)
        for begin, end in blocks(contexts.size):
            shares, begins = statistics.shares()
            rows = statistics.rows[begin:end]
            bases = rows * _SHARES
            cells = np.empty(end - begin, np.int64)
            for at in range(0, end - begin, self._states.size):
                cells[at : at + self._states.size] = self._step(bases[at : at + self._states.size], shares, begins)
            coded[begin:end] = cells - rows * statistics.alphabet
            statistics.update_counts(cells)
        symbols = np.empty_like(coded)
        symbols[order] = coded
        return symbols

    def _step(self, bases: Ints, shares: Ints, begins: Ints) -> Ints:
        lanes = self._states[: bases.size]
        places = bases + (lanes & (_SHARES - 1))
        cells: Ints = begins.searchsorted(places, side="right") - 1
        lanes = shares[cells] * (lanes >> SHARE_BITS) + places - begins[cells]
        hungry = (lanes < LOWEST).nonzero()[0]
        words = self._words[self._at : self._at + hungry.size]
        if words.size < hungry.size:
            refuse(f"the coded symbols end too early: {self._words.size} words are not enough")
        self._at += hungry.size
        lanes[hungry] = lanes[hungry] << 16 | words
        self._states[: bases.size] = lanes
        return cells

    def finish(self) -> Ints:
        """The filler, (L,) int64 below 2**16.

        Raises:
            RemoteProtocolError: words are left over, or the final state is not a valid start of an encoder.
        """
        if self._at != self._words.size or bool((self._states >= 2 * LOWEST).any()):
            refuse(f"the coded symbols do not end where they should, {self._words.size - self._at} words are left")
        return self._states - LOWEST
