"""The modelled body of docs/wire-format.md, read slowly: plain Python, no numpy, nothing of wire."""

import math
import struct


class Refused(Exception):  # noqa: N818 - reads as a verdict
    pass


class Bits:
    def __init__(self, data):
        self.bits = "".join(f"{byte:08b}" for byte in data)
        self.at = 0

    def take(self, count):
        if self.at + count > len(self.bits):
            raise Refused
        self.at += count
        return self.bits[self.at - count : self.at]

    def number(self, width):
        return int(self.take(width) or "0", 2)


def unpack(format_, data, offset=0):
    if len(data) < offset + struct.calcsize(format_):
        raise Refused
    return struct.unpack_from(format_, data, offset)


def token_of(value, d):
    if value < 1 << d:
        return value
    p = value.bit_length() - 1
    return (1 << d) + 2 * (p - d) + (value >> (p - 1) & 1)


def least_of(token, d):
    """The least number that has this token."""
    if token < 1 << d:
        return token
    p, half = divmod(token - (1 << d), 2)
    return (2 + half) << (p + d - 1)


def rest_width(token, d):
    return 0 if token < 1 << d else (token - (1 << d)) // 2 + d - 1


def mean_class(a, b):
    return token_of(8 * a // b, 2)


def geometric_prior(context, weight, symbols):
    a, b = least_of(context, 2), least_of(context + 1, 2) - 1
    m = max(a + b, 1)

    def at_least(value):
        product, q = 1 << 30, (m << 30) // (m + 16)
        while value:
            if value & 1:
                product = product * q >> 30
            q = q * q >> 30
            value >>= 1
        return product

    return [1 + ((at_least(least_of(s, 2)) - at_least(least_of(s + 1, 2))) * weight >> 30) for s in range(symbols)]


def frequencies(counts):
    total, symbols = sum(counts), len(counts)
    table = [1 + count * ((1 << 14) - symbols) // total for count in counts]
    table[counts.index(max(counts))] += (1 << 14) - sum(table)
    return table


class Lanes:
    def __init__(self, bits, count, words):
        places = [16 + bits.number(4) for _ in range(count)]
        self.states = [(1 << p) + bits.number(p) for p in places]
        self.words, self.taken = words, 0

    def symbol(self, lane, table):
        x = self.states[lane]
        z, begin, found = x % (1 << 14), 0, 0
        while z >= begin + table[found]:
            begin += table[found]
            found += 1
        x = table[found] * (x >> 14) + z - begin
        if x < 1 << 16:
            if self.taken == len(self.words):
                raise Refused
            x = (x << 16) + self.words[self.taken]
            self.taken += 1
        self.states[lane] = x
        return found

    def stream(self, bits, contexts, prior, d):
        """One number for each context; ``prior`` gives the first counts of a context."""
        m = len(contexts)
        stride = max(m // 64, 1)
        order = [i for begin in range(stride) for i in range(begin, m, stride)]
        counts, symbols, done = {}, [0] * m, 0
        while done < m:
            block = order[done : done + min(done or 64, 4096)]
            for context in {contexts[i] for i in block} - counts.keys():
                counts[context] = prior(context)
            tables = {context: frequencies(counts[context]) for context in {contexts[i] for i in block}}
            for at, i in enumerate(block):
                symbols[i] = self.symbol(at % len(self.states), tables[contexts[i]])
            for i in block:
                counts[contexts[i]][symbols[i]] += 32
            done += len(block)
        return [least_of(s, d) + bits.number(rest_width(s, d)) for s in symbols]

    def fillers(self):
        """16 bits of each lane, once nothing is left to read."""
        if self.taken != len(self.words) or any(x >> 16 != 1 for x in self.states):
            raise Refused
        return "".join(f"{x - (1 << 16):016b}" for x in self.states)


def read_heads(bits, shapes, k):
    """For each tensor: first index, columns, axis, lines, width, used lines, excess."""
    heads, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        rows = shape[0] if len(shape) > 1 else 1
        columns = size // rows
        axis = bits.number(1) if len(shape) == 2 and min(shape) > 1 else 0
        lines, width = (columns, rows) if axis else (rows, columns)
        used = bits.number(lines.bit_length())
        if used > lines:
            raise Refused
        excess = bits.number((used * (width - 1)).bit_length())
        if excess > used * (width - 1):
            raise Refused
        heads.append((start, columns, axis, lines, width, used, excess))
        start += size
    if sum(used + excess for *_, used, excess in heads) != k:
        raise Refused
    return heads


def modelled(data, shapes, k, top, ones=64):
    """Positions and levels, at most ``top``; ``ones`` is the first count of magnitude 1."""
    (count,) = unpack("<I", data)
    words = unpack(f"<{count}H", data, 4)
    bits = Bits(data[4 + 2 * count :])
    lanes = Lanes(bits, min(max(k // 80, 1), 256), words)
    heads = read_heads(bits, shapes, k)

    longest = max((max(lines, width) for _, _, _, lines, width, _, _ in heads), default=0)
    symbols = token_of(longest, 2) + 1

    def light(context):
        return geometric_prior(context, 256, symbols)

    def heavy(context):
        return geometric_prior(context, 2048, symbols)

    contexts = [mean_class(lines - u, u + 1) for _, _, _, lines, _, u, _ in heads for _ in range(u)]
    line_gaps = iter(lanes.stream(bits, contexts, light, 2))
    numbers = []
    for *_, lines, _, used, _ in heads:
        line, found = -1, []
        for _ in range(used):
            line += next(line_gaps) + 1
            found.append(line)
        if line >= lines:
            raise Refused
        numbers.append(found)

    contexts = [mean_class(e, u) for *_, u, e in heads for _ in range(u)]
    excesses = iter(lanes.stream(bits, contexts, light, 2))
    counts = [[next(excesses) + 1 for _ in range(u)] for *_, u, _ in heads]
    for (*_, width, used, excess), found in zip(heads, counts, strict=True):
        if sum(found) != used + excess or any(c > width for c in found):
            raise Refused

    contexts = [
        mean_class(width - c, c + 1)
        for (*_, width, _, _), found in zip(heads, counts, strict=True)
        for c in found
        for _ in range(c)
    ]
    gaps = iter(lanes.stream(bits, contexts, heavy, 2))
    places = []
    for (start, columns, axis, _, width, _, _), lines_used, found in zip(heads, numbers, counts, strict=True):
        for line, c in zip(lines_used, found, strict=True):
            place = -1
            for _ in range(c):
                place += next(gaps) + 1
                if place >= width:
                    raise Refused
                places.append((start + (place * columns + line if axis else line * columns + place), c))
    places.sort()
    positions = [position for position, _ in places]

    contexts = [min(c.bit_length() - 1, 9) for _, c in places]
    prior = [ones if token == 1 else 64 for token in range(token_of(top, 3) + 1)]
    levels = lanes.stream(bits, contexts, lambda _: list(prior), 3)
    if any(level > top for level in levels):
        raise Refused
    fillers, signed = lanes.fillers(), sum(level > 0 for level in levels)
    signs = fillers[:signed] + bits.take(max(signed - len(fillers), 0))
    if "1" in fillers[signed:] or len(bits.bits) - bits.at >= 8 or "1" in bits.bits[bits.at :]:
        raise Refused
    negative = iter(signs)
    levels = [-level if level and next(negative) == "1" else level for level in levels]
    return positions, levels
