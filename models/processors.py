"""Where TensorFlow calculates: on a GPU if it sees one, else on the CPU, by the same code.

TensorFlow takes a GPU by itself if it sees one, so what decides is what it may see: :func:`environment` for a child
process, and :func:`choose`, which says why, and prepares it. TensorFlow is imported only where there is
something to see: it takes seconds and half a gigabyte. ``python -m models.processors`` says it as one line of JSON.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from wire.errors import ConfigError

DEVICES = Path("/dev")
GPU_FILES = ("nvidia[0-9]*", "dxg", "kfd")
"""What the drivers of NVIDIA, of Windows' Linux and of AMD put there."""


class Processor(enum.Enum):
    """What may be asked for."""

    AUTO = "auto"
    """A GPU if TensorFlow sees one."""
    CPU = "cpu"
    GPU = "gpu"
    """A GPU or nothing."""


class Choice(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        gpu: whether it is a GPU.
        why: in words: its name, or what is missing.
        remedy: what could be done for a GPU; empty if nothing needs to be.
        tensorflow: version; empty if it was not imported.
    """

    gpu: bool
    why: str
    remedy: str = ""
    tensorflow: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return "GPU" if self.gpu else "CPU"


def environment(wanted: Processor, inherited: Mapping[str, str]) -> dict[str, str]:
    """Of a process that may import TensorFlow: it reads these when it is imported, and too late afterwards.

    Args:
        wanted: CPU hides every GPU.
        inherited: what else it is given.
    """
    # By default it takes all of a GPU's memory, also from the other process that exports at the same time.
    found = {**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return found | {"CUDA_VISIBLE_DEVICES": "-1"} if wanted is Processor.CPU else found


def choose(wanted: Processor, devices: Path = DEVICES) -> Choice:
    """Where this process calculates.

    Args:
        wanted: what the configuration asks for.
        devices: where drivers put their files.

    Raises:
        ConfigError: a GPU must be used and cannot.
    """
    found = look(wanted, devices)
    if wanted is Processor.GPU and not found.gpu:
        msg = f"processor = 'gpu': {found.why}; {found.remedy or 'take auto or cpu'}"
        raise ConfigError(msg)
    return found


def look(wanted: Processor, devices: Path = DEVICES) -> Choice:
    """As :func:`choose`, but where a GPU is wanted in vain, too."""
    if wanted is Processor.CPU:
        return Choice(gpu=False, why="the configuration says so")
    if not any(True for pattern in GPU_FILES for _ in devices.glob(pattern)):
        return Choice(gpu=False, why=f"this machine shows no GPU: there is no {devices / 'nvidia0'}")
    if find_spec("tensorflow") is None:
        return Choice(gpu=False, why="TensorFlow is not installed", remedy="make setup TENSORFLOW=tensorflow-gpu")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in {"", "-1"}:
        return Choice(gpu=False, why=f"CUDA_VISIBLE_DEVICES={hidden} hides the GPU", remedy="unset it")

    import tensorflow as tf

    if not tf.test.is_built_with_gpu_support():
        remedy = "make setup TENSORFLOW=tensorflow-gpu"
        return Choice(gpu=False, why="this TensorFlow is built without CUDA", remedy=remedy, tensorflow=tf.__version__)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        why = "TensorFlow sees no GPU: a library or the driver is missing"
        return Choice(gpu=False, why=why, remedy="look at nvidia-smi", tensorflow=tf.__version__)
    # Evaluation shall say the same everywhere; ten bits of a float32 are too few for that.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return Choice(gpu=True, why=_name(tf, gpus[0]), tensorflow=tf.__version__)


def _name(tf: Any, gpu: Any) -> str:
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name))


def main(wanted: str) -> None:
    """Print the choice, for doctor; TensorFlow is imported in any case, to see whether it can be.

    Args:
        wanted: value of a :class:`Processor`.
    """
    found = look(Processor(wanted))
    if not found.tensorflow and find_spec("tensorflow") is not None:
        import tensorflow as tf

        found = msgspec.structs.replace(found, tensorflow=tf.__version__)
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
