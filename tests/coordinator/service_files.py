"""The configuration of a coordinator process with quick rounds of two devices."""

import json
from pathlib import Path


def write_service(folder: Path, lines: list[str], **task: object) -> Path:
    """Write ``coordinator.toml``.

    Args:
        folder: has the model in ``model``.
        lines: what comes before ``[task]``.
        task: settings of the task that are others than here.
    """
    settings = {
        "goal": 2,
        "minimum": 2,
        "over_selection": 1.0,
        "selection_window_s": 0.2,
        "selection_deadline_s": 600.0,
        "report_deadline_s": 600.0,
        "retry_after_s": 0.2,
        **task,
    }
    lines = [*lines, "[task]", 'model = "model"', *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    lines += ["[task.codec]", 'name = "dense-f32"', "[limits]", "cohort = 1", "density = 1.0"]
    path = folder / "coordinator.toml"
    path.write_text("\n".join(lines))
    return path
