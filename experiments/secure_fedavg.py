"""FedAvg under additively homomorphic encryption, beside the product's secure sums.

A small reference protocol for an honest but curious server, not a product. Devices share a Paillier key that the server
does not have; it multiplies ciphertexts and never sees an update::

    device i -> server   [w_i], w_i = its update on the common grid, many numbers in one ciphertext
    server -> devices    [w_1 + ... + w_K]
    device               decrypts the sum, and the mean is that of the product (wire.secure_sum.grid)

Whoever has the key reads every update that it can get hold of, so one device that works with the server is enough to
break it; the product's sums (docs/learning.md) survive a share of colluding devices, and dropouts, which here only cost
their own update. A number has bits for the whole sum, so nothing wraps into its neighbour.

    python -m nightjar.experiments.secure_fedavg --form short --out build/secure_fedavg --json
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from phe import generate_paillier_keypair

from nightjar.benchmarks import sum_in_process
from nightjar.benchmarks.sum_in_process import Member
from nightjar.experiments.data_sets import Examples, digits, in_turn
from nightjar.experiments.engine import ClientPlan, descend
from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.experiments.networks import dense
from nightjar.experiments.paillier import Encrypted, Public, decrypt, encrypt, to_bytes
from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.grid import Grid, mean_of, to_words
from nightjar.wire.secure_sum.masks import Words, packed_bytes
from nightjar.wire.secure_sum.terms import Terms


@dataclass(frozen=True, slots=True)
class Costs:
    """What one sum cost.

    Attributes:
        total: (n,) uint32, the sum modulo 2^bits.
        up_bytes: what a device sent.
        down_bytes: what a device was sent.
        device_s: processor time of a device, the mean.
        server_s: processor time of the server.
    """

    total: Words
    up_bytes: int
    down_bytes: int
    device_s: float
    server_s: float


def packed(words: Words, public: Public, width: int) -> list[int]:
    """Plaintexts that hold as many numbers as they can, the first lowest.

    Args:
        words: (n,) uint32.
        public: the key; a plaintext stays below half of its n.
        width: bits of each number.
    """
    each = (public.n.bit_length() - 2) // width
    numbers = words.tolist()
    return [
        sum(number << place * width for place, number in enumerate(numbers[begin : begin + each]))
        for begin in range(0, len(numbers), each)
    ]


def unpacked(plaintexts: Sequence[int], public: Public, width: int, size: int) -> list[int]:
    """Inverse of :func:`packed` for sums, (size,)."""
    each = (public.n.bit_length() - 2) // width
    low = (1 << width) - 1
    return [plaintexts[place // each] >> place % each * width & low for place in range(size)]


def encrypted_sum(words: Sequence[Words], bits: int, key_bits: int) -> Costs:
    """The sum of devices' numbers modulo 2^bits under Paillier's encryption."""
    public, private = generate_paillier_keypair(n_length=key_bits)
    width = bits + len(words).bit_length()
    begin_s = time.process_time()
    sent = [[encrypt(public, number) for number in packed(own, public, width)] for own in words]
    encrypted_s = time.process_time()
    total: list[Encrypted] = [sum(column[1:], column[0]) for column in zip(*sent, strict=True)]
    added_s = time.process_time()
    plaintexts = [decrypt(private, number) for number in total]
    found = np.array(unpacked(plaintexts, public, width, words[0].size)) % (1 << bits)
    decrypted_s = time.process_time()
    return Costs(
        total=found.astype(np.uint32),
        up_bytes=sum(map(len, to_bytes(sent[0]))),
        down_bytes=sum(map(len, to_bytes(total))),
        device_s=(encrypted_s - begin_s) / len(words) + decrypted_s - added_s,
        server_s=added_s - encrypted_s,
    )


def masked_sum(words: Sequence[Words], bits: int, rng: np.random.Generator) -> Costs:
    """The same sum by the product's protocol, with all devices staying.

    Raises:
        RuntimeError: the sum was abandoned.
    """
    devices = len(words)
    terms = Terms(
        session=rng.bytes(32), threshold=2, minimum=max(3, devices * 7 // 10), values=words[0].size, bits=bits
    )
    members = [_member(own, rng) for own in words]
    result = sum_in_process.run(terms, members, LibraryPrimitives())
    if result.total is None:
        msg = "the sum was abandoned"
        raise RuntimeError(msg)
    numbers = range(devices)
    return Costs(
        total=result.total,
        up_bytes=max(result.up_bytes(number) for number in numbers) + packed_bytes(terms),
        down_bytes=max(result.down_bytes(number) for number in numbers),
        device_s=float(np.mean([result.device_s[number] for number in numbers])),
        server_s=result.coordinator_s,
    )


def _member(words: Words, rng: np.random.Generator) -> Member:
    key = EnrolledKey(ec.generate_private_key(ec.SECP256R1()))
    return Member(key.public, key.sign, rng.bytes(32), words)


NETWORK = dense(64, 10)
PLAN = ClientPlan(rate=0.1, batch=16)
GRID = Grid(step=0.002, most=255)
"""Nine bits for a number of a device; updates of the network here are below half."""


def numbers_of(weights: Vector, devices: Sequence[Examples], bits: int, seed: Sequence[int]) -> list[Words]:
    """What each device gives to the sum of a round: its update after one epoch, and its weight."""
    words, most = [], max(len(device.y) for device in devices)
    for number, device in enumerate(devices):
        rng = np.random.default_rng([*seed, number])
        update = descend(NETWORK, weights, device, PLAN, rng) - weights
        words.append(to_words(update, len(device.y) / most, GRID, bits, rng))
    return words


def moved(weights: Vector, total: Words, bits: int) -> Vector:
    """The weights after a round."""
    return (weights + mean_of(total, GRID, bits)).astype(np.float32)


def run(request: Request) -> list[ResultRow]:
    """FedAvg on digits with encrypted sums, beside the product's secure sums and training in one place."""
    count, rounds, key_bits = request.pick((4, 1, 512), (10, 10, 1024), (10, 30, 2048))
    data, weights = digits(1), NETWORK.start(np.random.default_rng(1))
    devices = in_turn(data.train, count)
    pooled = descend(NETWORK, weights, data.train, replace(PLAN, epochs=rounds), np.random.default_rng(1))
    bits, exact, curve = GRID.bits(count), 0, []
    for number in range(rounds):
        words = numbers_of(weights, devices, bits, [1, number])
        sums = [encrypted_sum(words, bits, key_bits), masked_sum(words, bits, np.random.default_rng(number))]
        plain = np.sum(words, axis=0, dtype=np.uint32) % 2**bits
        exact += all((each.total == plain).all() for each in sums)
        weights = moved(weights, sums[0].total, bits)
        curve.append((number + 1, NETWORK.correct(weights, data.test)))
    figures = {
        "devices": count,
        "numbers": words[0].size,
        "bits of the key": key_bits,
        "share of sums exact": exact / rounds,
    }
    for name, costs in zip(("Paillier", "secure sum"), sums, strict=True):
        figures |= {
            f"{name}: kB up": costs.up_bytes / 1000,
            f"{name}: kB down": costs.down_bytes / 1000,
            f"{name}: device's processor seconds": costs.device_s,
            f"{name}: server's processor seconds": costs.server_s,
        }
    return [
        row(
            request,
            "secure FedAvg: Paillier beside the product's secure sum",
            [curve[-1][1]],
            seeds=[1],
            pooled=NETWORK.correct(pooled, data.test),
            figures={name: float(value) for name, value in figures.items()},
            curves={"FedAvg": curve},
        )
    ]


main = page_command("secure_fedavg", run)

if __name__ == "__main__":
    main()
