"""CPFed (Hu, Gong and Guo 2020): local steps with noise, pairwise masks, zCDP.

Each device of a round takes tau local steps with its own noise inside the learning rate, and masks its weights with
pseudo-random numbers that cancel in the sum of all of them::

    theta <- theta - eta (g + N(0, sigma^2))                    g: mean of a batch's gradients, each clipped to L
    c_i = theta_i + sum over j of (G(seed_ij, t) - G(seed_ji, t))  mod 2^32
    theta <- (1 / r) sum of c_i

After T rounds every device has, by the paper's theorem 5.1 (equation 5.11), rho-zCDP for each of its *examples*::

    rho = 2 T tau L^2 / (n B^2 sigma^2),    epsilon = rho + 2 sqrt(rho log(1 / delta))

The theorem needs more than the paper says. Its sum over a round's devices is r times as noisy as one update, which
helps only if all r noises reach the sum, so :func:`refusals` names what breaks it. It also takes 2 eta tau L / B as the
sensitivity of tau steps, which does not hold once two trajectories differ, unless the steps contract: not for an LSTM.
:func:`rho_of_own_noise` counts on the device's own noise alone and needs neither; both are printed.

The product uses DP-FTRL for whole devices instead (docs/adr/0041). Source: arXiv:2003.13761, algorithm 1.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.experiments.frame import Request, ResultRow, page_command, row

Wide = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
SCALE = 2.0**16
"""Steps of the fixed point per unit: 32 bits hold sums up to 2^15."""


@dataclass(frozen=True, slots=True)
class CpfedSetting:
    """The letters of the paper: T, tau, L, n, B, sigma, delta, r, and what a deployment would add to it."""

    rounds: int
    steps: int
    gradient_norm: float
    devices: int
    batch: int
    sigma: float
    delta: float
    cohort: int = 10
    own_choice_topk: bool = False
    weighted_by_examples: bool = False
    clips_each_example: bool = True
    adaptive_on_device: bool = False


def rho_of_paper(at: CpfedSetting, reporting: int | None = None) -> float:
    """Rho of equation 5.11; with fewer of the r devices reporting, their noise is missing from the sum."""
    kept = 1.0 if reporting is None else reporting / at.cohort
    return 2 * at.rounds * at.steps * at.gradient_norm**2 / (at.devices * at.batch**2 * at.sigma**2 * kept)


def rho_of_own_noise(at: CpfedSetting, joined: int) -> float:
    """Rho of a device that joined so many rounds: its local steps composed, with no noise but its own."""
    return joined * 2 * at.steps * at.gradient_norm**2 / (at.batch**2 * at.sigma**2)


def epsilon(rho: float, delta: float) -> float:
    """Epsilon of rho-zCDP by the paper's lemma 3; dp-accounting's is smaller.

    >>> round(epsilon(0.03125, 1e-5), 6)
    1.230881
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def refusals(at: CpfedSetting, *, dropouts: bool) -> list[str]:
    """Why the theorem does not hold in a setting; C3 to C6 of the survey that the project began with.

    Args:
        at: the setting.
        dropouts: whether devices may leave in the middle of a round.
    """
    found = []
    if at.own_choice_topk:
        found.append("masks cancel only where all devices send: coordinates of a device's own choice stay masked (C3)")
        found.append("a coordinate that few devices send has the noise of few: count with r = 1, not with r (C4)")
    if dropouts:
        found.append("a missing device's masks do not cancel and its noise is missing: the round is lost (C5)")
    if at.weighted_by_examples:
        found.append("a weight tells how much a device typed, and changes its sensitivity: take 1 / r (C6)")
    if not at.clips_each_example:
        found.append("L bounds the gradient of each example: clip each one")
    if at.adaptive_on_device:
        found.append("the theorem is about SGD: Adam's moments depend on the examples as well")
    return found


def mask(device: int, cohort: Sequence[int], seeds: Mapping[tuple[int, int], bytes], number: int, size: int) -> Words:
    """A device's mask of a round, (size,) uint32: two directed seeds a pair, so that it cancels in the sum."""
    total = np.zeros(size, np.uint32)
    for other in cohort:
        if other != device:
            total += _prf(seeds[device, other], number, size) - _prf(seeds[other, device], number, size)
    return total


def _prf(seed: bytes, number: int, size: int) -> Words:
    """G(seed, t): without t, two rounds of a pair would have the same mask."""
    digest = hashlib.blake2b(number.to_bytes(8), key=seed, digest_size=16).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
    return generator.integers(0, 2**32, size, np.uint32)


def to_words(values: Wide) -> Words:
    """Fixed point modulo 2^32, (n,) uint32."""
    return (np.rint(values * SCALE).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def to_values(words: Words) -> Wide:
    """Inverse of :func:`to_words`, (n,) float64."""
    return words.view(np.int32).astype(np.float64) / SCALE


def local_steps(theta: Wide, x: Wide, y: Wide, at: CpfedSetting, rate: float, rng: np.random.Generator) -> Wide:
    """Tau steps of logistic regression on one device's examples: x (m, n), y (m,) of 0 and 1."""
    for _ in range(at.steps):
        chosen = rng.choice(len(x), at.batch, replace=False)
        error = 1 / (1 + np.exp(-x[chosen] @ theta)) - y[chosen]
        gradients = error[:, None] * x[chosen]  # (B, n)
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients *= np.minimum(1.0, at.gradient_norm / np.maximum(norms, 1e-12))
        theta = theta - rate * (gradients.mean(axis=0) + rng.normal(0.0, at.sigma, theta.size))
    return theta


def train(at: CpfedSetting, rate: float, seed: int, size: int = 10) -> float:
    """Accuracy after all rounds on made-up examples, 0 to 1.

    Raises:
        ValueError: the theorem does not hold in the setting.
    """
    wrong = refusals(at, dropouts=False)
    if wrong:
        raise ValueError("; ".join(wrong))
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=size)
    x = rng.normal(size=(at.devices, 4 * at.batch, size))
    y = (x @ truth > 0).astype(np.float64)
    pairs = [(i, j) for i in range(at.devices) for j in range(at.devices) if i != j]
    seeds = dict(zip(pairs, map(bytes, rng.integers(0, 256, (len(pairs), 32), np.uint8)), strict=True))
    theta = np.zeros(size)
    for number in range(at.rounds):
        cohort = rng.choice(at.devices, at.cohort, replace=False).tolist()
        total = np.zeros(size, np.uint32)
        for device in cohort:
            trained = local_steps(theta, x[device], y[device], at, rate, rng)
            total += to_words(trained) + mask(device, cohort, seeds, number, size)
        theta = to_values(total) / at.cohort
    return float(((x @ theta > 0) == (y > 0.5)).mean())


def run(request: Request) -> list[ResultRow]:
    """CPFed by noise, with both bounds on epsilon; sigma 0 is the same without noise."""
    seeds = request.pick([7], [7, 8, 9], [7, 8, 9, 10, 11])
    found = []
    for sigma in request.pick((1.0,), (0.0, 0.3, 1.0, 3.0), (0.0, 0.1, 0.3, 1.0, 3.0)):
        rounds = request.pick(20, 100, 200)
        at = CpfedSetting(rounds=rounds, steps=4, gradient_norm=1.0, devices=40, batch=16, sigma=sigma, delta=1e-5)
        figures = {}
        if sigma:
            bounds = {"the paper": rho_of_paper(at), "own noise alone": rho_of_own_noise(at, joined=rounds // 4)}
            figures = {f"epsilon by {name}": epsilon(rho, at.delta) for name, rho in bounds.items()}
        accuracies = [train(at, rate=0.1, seed=seed) for seed in seeds]
        found.append(row(request, f"CPFed, sigma {sigma:g}", accuracies, seeds=seeds, figures=figures))
    return found


main = page_command("cpfed", run)

if __name__ == "__main__":
    main()
