"""Models, and what a task predicts: task types, batches, manifest, program, export, evaluation; and the keyboard's.

``task_types``, ``keyboard``, ``classification``, ``vocabulary``, ``batches``, ``configurations``, ``manifest``,
``initial``, ``ngram`` and ``corpora`` need no TensorFlow; the agent imports only these. ``lstm``, ``program``,
``automatic``, ``export``, ``training``, ``measuring`` and ``evaluation`` need it and run on the coordinator.
``export_program`` is that of :mod:`nightjar.models.automatic`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import ``export_program``, which loads TensorFlow, only when it is asked for."""
    if name != "export_program":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from nightjar.models.automatic import export_program

    return export_program
