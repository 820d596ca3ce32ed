"""Split learning (Gupta and Raskar 2018; Vepakomma et al. 2018): a network cut between devices and a server.

A small reference protocol, not a product: the values at the cut show much of the inputs, as their distance correlation
says. Devices train one after the other and hand the weights of their side on; for each batch::

    vanilla    device -> server   values at the cut, and the labels
               server -> device   slope of the loss by these values
    U-shaped   device -> server   values at the cut
               server -> device   values at the second cut; the device has the last layer and the labels
               device -> server   slope of the loss by those
               server -> device   slope by the values at the first cut

This is SGD on the devices' batches, one device after the other, so the weights are those of one place. Numbers
that are sent in an epoch of all devices, with p examples, q values at the cut, N weights of which the devices have a
share a, and K devices: ``2 p q + a N K``, U-shaped ``2 p (q + q') + a N K``; FedAvg: ``2 K N``. (Labels come on top.)
Few devices with many examples favour FedAvg, many devices with few favour the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nightjar.experiments.data_sets import Examples, Floats, digits, in_turn
from nightjar.experiments.distance_correlation import distance_correlation
from nightjar.experiments.engine import ClientPlan, batches, descend, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.experiments.networks import Classifier, arrays_of, cross_entropy, dense, flat_of, forward, stepped
from nightjar.experiments.parties import Post, ProtocolRun, from_floats, run_parties, to_floats
from nightjar.wire.parameters import Vector

SERVER = "server"
Layers = list[Floats]
"""Matrix, bias, matrix, bias and so on."""
FLOATS = ("cut", "slope", "second cut", "second slope", "hand-over")
"""Messages of numbers alone; the others are labels."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How a network is cut and trained.

    Attributes:
        widths: of inputs, hidden layers and classes.
        first: layers on the device, before the cut.
        u_shaped: whether the last layer is on the device as well.
        epochs: of all devices.
        batch: examples of a step.
        rate: of SGD.
        seed: of the first weights and of the order of examples.
    """

    widths: tuple[int, ...] = (64, 32, 32, 10)
    first: int = 1
    u_shaped: bool = False
    epochs: int = 1
    batch: int = 16
    rate: float = 0.1
    seed: int = 1

    @property
    def network(self) -> Classifier:
        """The whole network."""
        return dense(*self.widths)

    @property
    def plan(self) -> ClientPlan:
        """What a device does in an epoch."""
        return ClientPlan(self.rate, self.batch)

    def start(self) -> Vector:
        """The first weights of the whole network."""
        return self.network.start(np.random.default_rng(self.seed))

    def parts(self, weights: Vector) -> tuple[Layers, Layers, Layers]:
        """Layers of the device before the cut, of the server, and of the device after it."""
        layers = arrays_of(weights, self.network.shapes)
        last = len(layers) - 2 * self.u_shaped
        return layers[: 2 * self.first], layers[2 * self.first : last], layers[last:]

    def order(self, epoch: int, number: int) -> np.random.Generator:
        """Orders the examples of a device in an epoch."""
        return np.random.default_rng([self.seed, epoch, number])


def device(post: Post, number: int, names: Sequence[str], examples: Examples, at: SplitPlan) -> bytes:
    """A device. Returns the weights of its side when it had its last turn."""
    body, _, head = at.parts(at.start())
    shapes = [part.shape for part in body + head]
    for epoch in range(at.epochs):
        if epoch or number:
            both = arrays_of(to_floats(post.receive(names[number - 1], "hand-over"), -1), shapes)
            body, head = both[: len(body)], both[len(body) :]
        for batch in batches(len(examples), at.plan, at.order(epoch, number)):
            x, y = examples.x[batch], examples.y[batch]
            values = forward(body, x, ends=False)
            post.send(SERVER, "cut", from_floats(values[-1]))
            if head:
                features = to_floats(post.receive(SERVER, "second cut"), len(x), -1)
                ends = forward(head, features)
                head, slope = stepped(head, ends, cross_entropy(ends[-1], y)[1], at.rate)
                post.send(SERVER, "second slope", from_floats(slope))
            else:
                post.send(SERVER, "labels", y.tolist())
            slope = to_floats(post.receive(SERVER, "slope"), len(x), -1)
            body, _ = stepped(body, values, slope, at.rate, ends=False)
        if epoch + 1 < at.epochs or number + 1 < len(names):
            post.send(names[(number + 1) % len(names)], "hand-over", from_floats(flat_of(body + head)))
    return from_floats(flat_of(body + head))


def server(post: Post, names: Sequence[str], steps: Sequence[int], at: SplitPlan) -> bytes:
    """The server; ``steps`` are the batches of each device in an epoch. Returns the weights of its side."""
    _, own, _ = at.parts(at.start())
    for _ in range(at.epochs):
        for name, count in zip(names, steps, strict=True):
            for _ in range(count):
                sent = np.frombuffer(post.receive(name, "cut"), "<f4").reshape(-1, at.widths[at.first])
                values = forward(own, sent, ends=not at.u_shaped)
                if at.u_shaped:
                    post.send(name, "second cut", from_floats(values[-1]))
                    slope = to_floats(post.receive(name, "second slope"), len(sent), -1)
                else:
                    _, slope = cross_entropy(values[-1], np.array(post.receive(name, "labels")))
                own, slope = stepped(own, values, slope, at.rate, ends=not at.u_shaped)
                post.send(name, "slope", from_floats(slope))
    return from_floats(flat_of(own))


def run_protocol(devices: Sequence[Examples], at: SplitPlan) -> tuple[Vector, ProtocolRun]:
    """Train with a process for each device and one for the server. Returns the weights, and all that was sent."""
    names = [f"device-{number}" for number in range(len(devices))]
    steps = [at.plan.count(len(each)) for each in devices]
    roles = {
        name: partial(device, number=number, names=names, examples=devices[number], at=at)
        for number, name in enumerate(names)
    }
    made = run_parties({SERVER: partial(server, names=names, steps=steps, at=at), **roles})
    cut = flat_of(at.parts(at.start())[0]).size
    sides = to_floats(made.results[names[-1]], -1)
    return np.concatenate([sides[:cut], to_floats(made.results[SERVER], -1), sides[cut:]]), made


def in_one_place(devices: Sequence[Examples], at: SplitPlan) -> Vector:
    """The same steps without a cut."""
    weights = at.start()
    for epoch in range(at.epochs):
        for number, examples in enumerate(devices):
            weights = descend(at.network, weights, examples, at.plan, at.order(epoch, number))
    return weights


def numbers_by_formula(examples: int, devices: int, at: SplitPlan) -> int:
    """``2 p q + a N K`` for all epochs; the last device has nobody to hand its weights to."""
    body, _, head = at.parts(at.start())
    cuts = at.widths[at.first] + (at.widths[-2] if at.u_shaped else 0)
    return 2 * examples * cuts * at.epochs + flat_of(body + head).size * (devices * at.epochs - 1)


def run(request: Request) -> list[ResultRow]:
    """Split learning beside FedAvg, by accuracy and bytes, for few and many devices."""
    epochs, counts = request.pick((1, (2,)), (5, (2, 8)), (20, (2, 8, 16)))
    kinds = [(count, cut) for count in counts for cut in (False, True)]
    return averaged(
        [_compared(request, count, SplitPlan(u_shaped=cut, epochs=epochs, seed=seed)) for count, cut in kinds]
        for seed in request.pick((1,), (1,), (1, 2, 3))
    )


def _compared(request: Request, count: int, at: SplitPlan) -> ResultRow:
    data = digits(at.seed)
    train, test = data.train.at(np.arange(request.pick(100, 1000, len(data.train)))), data.test
    devices = in_turn(train, count)
    weights, sent = run_protocol(devices, at)
    fedavg = at.start()
    for epoch in range(at.epochs):
        local = [descend(at.network, fedavg, own, at.plan, at.order(epoch, place)) for place, own in enumerate(devices)]
        fedavg = weighted_mean(local, [len(own) for own in devices]).astype(np.float32)
    before, after = (forward(at.parts(each)[0], test.x, ends=False)[-1] for each in (at.start(), weights))
    numbers = sum(len(each.value) for each in sent.messages if each.kind in FLOATS) // 4
    figures = {
        "kB sent": sent.sent_bytes() / 1000,
        "kB of numbers": numbers * 4 / 1000,
        "kB by the formula": numbers_by_formula(len(train), count, at) * 4 / 1000,
        "FedAvg": at.network.correct(fedavg, test),
        "kB of FedAvg by 2 K N": 2 * count * fedavg.size * at.epochs * 4 / 1000,
        "distance correlation at the cut": distance_correlation(test.x, after),
        "the same before training": distance_correlation(test.x, before),
    }
    name = f"split learning, {'U-shaped' if at.u_shaped else 'vanilla'}, {count} devices"
    pooled = at.network.correct(in_one_place(devices, at), test)
    return row(request, name, [at.network.correct(weights, test)], seeds=[at.seed], pooled=pooled, figures=figures)


main = page_command("split_learning", run)
if __name__ == "__main__":
    main()
