"""What a run leaves beside its checkpoint: options, versions, and a row a step in CSV and JSON. Week 9."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from .files import replacing
from .options import TrainOptions, to_toml
from .tensor_file import CheckpointError

__all__ = ["RunLog", "describe_run"]

CSV, JSON, CONFIG, RUN = "log.csv", "log.jsonl", "config.toml", "run.json"
COLUMNS = ("step", "loss", "lr", "seconds", "validation_loss")
PACKAGES = ("uop-nn", "uop-tensor", "uop-ir", "uop-codegen-c", "numpy")


def describe_run(folder: Path, options: TrainOptions, facts: Mapping[str, Any]) -> None:
    """Write config.toml, with which `uopc train --config` repeats the run, and run.json: facts, seed,
    versions.

    Raises CheckpointError where the folder cannot be written.
    """
    about = {
        **facts,
        "seed": options.seed,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }
    write_text(folder / CONFIG, to_toml(options))
    write_text(folder / RUN, json.dumps(about, indent=2) + "\n")


class RunLog:
    """The rows of a run, written as they come:
    a process that is killed leaves all but perhaps the last one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: tuple[TextIO, TextIO] | None = None

    def begin(self, done: int) -> None:
        """Go on after step `done`: later rows, and what a killed process left of a row, are dropped."""
        rows = [row for row in _rows(self.folder / JSON) if row["step"] <= done]
        write_text(
            self.folder / CSV, "".join(_csv(row) for row in [dict(zip(COLUMNS, COLUMNS, strict=True)), *rows])
        )
        write_text(self.folder / JSON, "".join(json.dumps(row) + "\n" for row in rows))

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row, with the names of COLUMNS. Raises CheckpointError where it cannot be written."""
        if self._files is None:
            self._files = (_appending(self.folder / CSV), _appending(self.folder / JSON))
        for file, text in zip(self._files, (_csv(row), json.dumps(dict(row)) + "\n"), strict=True):
            try:
                file.write(text)
                file.flush()
            except OSError as error:
                raise CheckpointError(f"cannot write {file.name}: {error.strerror}") from error

    def close(self) -> None:
        """No row comes for now."""
        for file in self._files or ():
            with suppress(OSError):  # of a row that could not be written: that was said
                file.close()
        self._files = None


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises CheckpointError where it cannot be written."""
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from error


def _appending(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", newline="")
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from error


def _rows(path: Path) -> Sequence[dict[str, Any]]:
    """The whole rows of a log; those after a broken line are not looked at."""
    rows: list[dict[str, Any]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return rows
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict) or set(row) != set(COLUMNS) or not isinstance(row["step"], int):
            break
        rows.append(row)
    return rows


def _csv(row: Mapping[str, Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row[name] for name in COLUMNS)
    return text.getvalue()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
