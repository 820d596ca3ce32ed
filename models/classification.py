"""The task type of classification: rows or images with a label, from a folder on the device.

A folder (or one file) holds one of:

- ``*.npz`` with the arrays ``x`` (n, ...) and ``y`` (n,), labels as numbers or text;
- ``*.csv`` with a header, a column ``label``, and numbers in all other columns;
- a folder for each class, named after it, with images of one size; pixels become 0 to 1.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nightjar.models.source import NO_EXAMPLES
from nightjar.models.task_types import FolderTask
from nightjar.wire.errors import ExamplesError

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp"})
LABEL = "label"

Rows = tuple[npt.NDArray[np.float32], list[str]]


class Classification(FolderTask):
    """Implements :class:`nightjar.models.task_types.TaskType`; the figures are accuracy and top-3 accuracy."""

    def read(self, folder: Path) -> tuple[npt.NDArray[np.float32], Sequence[str]]:
        """All rows of a folder, in the order of file names: x (n, ...) float32, and their labels."""
        try:
            parts = [_read_file(path) for path in _files(folder)] or _read_classes(folder)
        except OSError as error:
            msg = f"{folder}: cannot be read: {error.strerror or error}"
            raise ExamplesError(msg, "unreadable") from error
        if not parts:
            msg = f"{folder}: expected .npz files, .csv files, or folders of images named after their class"
            raise ExamplesError(msg, NO_EXAMPLES)
        shapes = {x.shape[1:] for x, _ in parts}
        if len(shapes) > 1:
            msg = f"{folder}: expected examples of one shape, got {', '.join(map(str, sorted(shapes)))}"
            raise ExamplesError(msg, "different-shapes")
        x = np.concatenate([x for x, _ in parts]) if len(parts) > 1 else parts[0][0]  # the only copy of a large file
        if not np.isfinite(x).all():
            msg = f"{folder}: expected finite numbers, some are not"
            raise ExamplesError(msg, "not-a-number")
        return x, [label for _, labels in parts for label in labels]


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        folder.stat()  # says that there is none
        return [folder]
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in (".npz", ".csv"))


def _read_file(path: Path) -> Rows:
    match path.suffix.lower():
        case ".npz":
            return _read_npz(path)
        case ".csv":
            return _read_csv(path)
        case _:
            msg = f"{path}: expected an .npz file, a .csv file or a folder"
            raise ExamplesError(msg, NO_EXAMPLES)


def _read_npz(path: Path) -> Rows:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in ("x", "y") if name in arrays.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        msg = f"{path}: not an .npz file of plain arrays: {error}"
        raise ExamplesError(msg, "unreadable") from error
    if "x" not in found:
        msg = f"{path}: expected an array x of examples"
        raise ExamplesError(msg, NO_EXAMPLES)
    if "y" not in found or found["y"].shape != found["x"].shape[:1]:
        msg = f"{path}: expected an array y with the label of each of the {len(found['x'])} examples"
        raise ExamplesError(msg, "labels-missing")
    if found["x"].dtype.kind not in "biuf":
        msg = f"{path}: expected numbers in x, got {found['x'].dtype}"
        raise ExamplesError(msg, "not-a-number")
    return _scaled(found["x"]), [str(label) for label in found["y"].tolist()]


def _read_csv(path: Path) -> Rows:
    x: list[list[float]] = []
    labels: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            columns = [name for name in reader.fieldnames or () if name != LABEL]
            if LABEL not in (reader.fieldnames or ()) or not columns:
                msg = f"{path}: expected a header with the column {LABEL!r} and columns of numbers, got {columns[:8]}"
                raise ExamplesError(msg, "labels-missing")
            for row in reader:
                if not (row[LABEL] or "").strip():
                    msg = f"{path} line {reader.line_num}: expected a label in the column {LABEL!r}"
                    raise ExamplesError(msg, "labels-missing")
                x.append([_number(row[name], f"{path} line {reader.line_num}, column {name!r}") for name in columns])
                labels.append(row[LABEL].strip())
    except (UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: not a CSV file in UTF-8: {error}"
        raise ExamplesError(msg, "unreadable") from error
    return np.array(x, np.float32).reshape(len(x), len(columns)), labels


def _number(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError as error:
        msg = f"{where}: expected a number, got {(text or '')[:40]!r}"
        raise ExamplesError(msg, "not-a-number") from error


def _read_classes(folder: Path) -> list[Rows]:
    paths = [
        (path, kind.name)
        for kind in sorted(path for path in folder.iterdir() if path.is_dir())
        for path in sorted(kind.iterdir())
        if path.suffix.lower() in IMAGES
    ]
    return [(_pixels(path)[None], [label]) for path, label in paths]


def _pixels(path: Path) -> npt.NDArray[np.float32]:
    """An image, (rows, columns, channels): one channel if it is grey, else three."""
    try:
        from PIL import Image
    except ImportError as error:
        msg = "reading images needs Pillow, which is not installed: pip install -r requirements/images.txt"
        raise ExamplesError(msg, "no-pillow") from error
    try:
        with Image.open(path) as image:
            grey = image.mode in ("1", "L")
            pixels = np.asarray(image.convert("L" if grey else "RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        msg = f"{path}: not an image that can be read: {error}"
        raise ExamplesError(msg, "unreadable") from error
    return _scaled(pixels.reshape(*pixels.shape[:2], -1))


def _scaled(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Numbers as float32; bytes are pixels from 0 to 255, which become 0 to 1."""
    return x.astype(np.float32) / np.float32(255) if x.dtype == np.uint8 else x.astype(np.float32)
