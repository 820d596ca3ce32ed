"""One federated training in this process, with the product's code at both ends and no transport between them.

Every phone of a cohort restores the model, trains and encodes its update; the coordinator's optimizer applies the mean
of the decoded updates. A late report is produced and its bytes are counted, but it is not averaged. The next
error-feedback state is adopted only if the report was accepted.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics

from nightjar.coordinator.learning.fedavg import Contribution, weight_of, weighted_mean
from nightjar.coordinator.learning.strategies.server_optimizer import fed_avg_m
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.training import TrainedUpdate, train
from nightjar.experiments.codec_study.coarse import coarse_codec
from nightjar.experiments.codec_study.feedback import FeedbackCodec
from nightjar.experiments.codec_study.masks import MASKED, choose_mask, masked_codec
from nightjar.experiments.codec_study.population import PopulationSetting
from nightjar.experiments.codec_study.results import CurvePoint
from nightjar.experiments.codec_study.variants import AfterLate, CodecVariant
from nightjar.models.warm_start import CLIP_NORM
from nightjar.simulation.warm_start import evaluate, seeded
from nightjar.wire.codec import NAMES, Codec, codec_for
from nightjar.wire.codec.sparsify import count_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.frame import Report, encode_report
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import TrainingPlan
from nightjar.wire.parameters import Vector

SERVER_LEARNING_RATE = 1.0
MOMENTUM = 0.9
"""FedAvgM learned most from scratch with this rate and momentum (Reddi et al. 2021 also recommend momentum)."""
WEIGHT_CAP = 10_000
"""Maximum number of examples that count as a report's weight; no phone here has as many."""
MASK_RANDOM_SHARE = 0.2
"""Share of random coordinates in a mask; the others are the largest of the last update."""
POINTS = 5
"""Number of evaluations during a training, after the initial one."""


def run(setting: PopulationSetting, variant: CodecVariant, rounds: int) -> tuple[list[CurvePoint], float]:
    """Train for a number of rounds.

    Args:
        setting: initial model and data; its device is used.
        variant: codec and lateness.
        rounds: at least 1.

    Returns:
        The learning curve, and the median length of a report's frame in bytes.

    Raises:
        UnavailableError: a phone could not train.
    """
    optimizer = fed_avg_m(SERVER_LEARNING_RATE, MOMENTUM)
    weights, state = setting.start, optimizer.init(setting.layout.size)
    last_update = None
    phones = Phones(setting, variant)
    curve = [_score(setting, weights, 0)]
    for number in range(1, rounds + 1):
        contributions = phones.round(number, weights, _codec(setting, variant, number, last_update))
        if contributions:
            mean = weighted_mean(contributions, setting.layout.size)
            moved, state = optimizer.apply(weights, mean, state)
            weights, last_update = moved, moved - weights
        if number == rounds or number % -(-rounds // POINTS) == 0:
            curve.append(_score(setting, weights, number))
    return curve, statistics.median(phones.report_bytes)


class Phones:
    """The phones of one training, with their error-feedback state.

    Attributes:
        residuals: phone -> error-feedback state, (n,) float32; no entry means zeros.
        report_bytes: length of each report's frame, late ones included.
    """

    def __init__(self, setting: PopulationSetting, variant: CodecVariant) -> None:
        self._setting = setting
        self._variant = variant
        self._plan = TrainingPlan(learning_rate=setting.population.learning_rate, clip_norm=CLIP_NORM)
        self.residuals: dict[int, Vector] = {}
        self.report_bytes: list[int] = []

    def round(self, number: int, weights: Vector, codec: Codec) -> list[Contribution]:
        """The contributions of a cohort without the late ones, in ascending order of devices.

        Args:
            number: round number, from 1.
            weights: (n,) float32, the current model.
            codec: codec of this round.
        """
        chance = seeded(self._setting.seed, "cohort", number)
        cohort = sorted(chance.permutation(len(self._setting.phones))[: self._setting.population.cohort].tolist())
        late = (chance.random(len(cohort)) < self._variant.late_share).tolist()
        reports = [
            self._report(number, phone, weights, codec, late=is_late)
            for phone, is_late in zip(cohort, late, strict=True)
        ]
        return [report for report in reports if report is not None]

    def _report(self, number: int, phone: int, weights: Vector, codec: Codec, *, late: bool) -> Contribution | None:
        trained = self._train(number, phone, weights)
        layout, rounding = self._setting.layout, seeded(self._setting.seed, "rounding", number, phone)
        if self._variant.feedback:
            feedback = FeedbackCodec(codec)
            residual = self.residuals.get(phone, feedback.init(layout))
            payload, following = feedback.encode(trained.delta, residual, layout, rounding)
            if not late:
                self.residuals[phone] = following
            elif self._variant.after_late is AfterLate.ADD:
                self.residuals[phone] = residual + trained.delta
        else:
            payload = codec.encode(trained.delta, layout, rounding)
        self.report_bytes.append(self._frame_bytes(number, trained, codec, payload))
        if late:
            return None
        weight = weight_of(trained.num_examples, WEIGHT_CAP)
        return Contribution(DeviceId(f"phone-{phone:04d}"), weight, codec.decode(payload, layout))

    def _train(self, number: int, phone: int, weights: Vector) -> TrainedUpdate:
        device = self._setting.device
        device.restore(weights)
        shuffle = seeded(self._setting.seed, "shuffle", number, phone)
        trained = train(device, self._setting.phones[phone], self._plan, shuffle, lambda: False, lambda: 0.0)
        if isinstance(trained, TrainingStopped):
            msg = f"phone {phone} could not train in round {number}: {trained.detail}"
            raise UnavailableError(msg)
        return trained

    def _frame_bytes(self, number: int, trained: TrainedUpdate, codec: Codec, payload: bytes) -> int:
        report = Report(
            round=number,
            attempt=1,
            codec=codec.wire_id,
            layout=self._setting.layout.fingerprint,
            version=number - 1,
            num_examples=trained.num_examples,
            steps=trained.steps,
            loss=trained.loss,
            seconds=trained.seconds,
            payload=payload,
        )
        return len(encode_report(report))


def _codec(setting: PopulationSetting, variant: CodecVariant, number: int, last_update: Vector | None) -> Codec:
    """The codec of one round; it caches the last decoding, which error feedback and the coordinator both need."""
    choice, size = variant.codec, setting.layout.size
    if choice.name in MASKED:
        chance = seeded(setting.seed, "mask", number)
        mask = choose_mask(last_update, count_for(choice.density, size), MASK_RANDOM_SHARE, size, chance)
        codec = masked_codec(choice, mask)
    else:
        codec = codec_for(choice) if choice.name in NAMES else coarse_codec(choice)
    return dataclasses.replace(codec, read=functools.lru_cache(maxsize=1)(codec.read))


def _score(setting: PopulationSetting, weights: Vector, number: int) -> CurvePoint:
    setting.device.restore(weights)
    nll, top1, top3 = evaluate(setting.device, [setting.test])
    return CurvePoint(round=number, nll=nll, top1=top1, top3=top3)
