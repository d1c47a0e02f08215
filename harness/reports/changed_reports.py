"""Writes reports only if their content, the drawing code or a written file changed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harness.errors import HarnessError
from harness.io.files import sha256, sha256_file, write_atomic
from harness.render.write import DEFAULT, RECORD, Report, draw
from harness.store import code

_DRAWING = ("formats", "html", "latex", "pdf", "svg")


def write_changed(
    report: Report, folder: Path, formats: Iterable[str] = DEFAULT, note: Callable[[str], object] | None = None
) -> dict[str, Path]:
    """Writes a report as `Report.write` does, unless the folder holds the same one; returns format -> file.

    Two reports are the same if their content, formats and drawing code are equal and every file has the checksum with
    which it was written.

    Raises
    ------
    HarnessError
        See `Report.write`.
    """
    formats = tuple(dict.fromkeys(formats))
    basis = _basis(report, formats)
    if files := _unchanged(folder, basis):
        return files
    drawn = draw(report, folder, formats)
    drawn.check()
    (folder / RECORD).unlink(missing_ok=True)  # an interrupted process would leave parts of two reports
    drawn.write()
    if drawn.fault:
        if note is None:
            raise HarnessError(drawn.fault)
        note(drawn.fault)
        return drawn.formats
    content = {
        "basis": basis,
        "formats": {name: path.relative_to(folder).as_posix() for name, path in drawn.formats.items()},
        "files": {path.relative_to(folder).as_posix(): sha256_file(path) for path in drawn.files},
    }
    write_atomic(folder / RECORD, json.dumps(content, indent=1) + "\n")
    return drawn.formats


def _basis(report: Report, formats: Iterable[str]) -> str:
    """Returns a checksum of the content, the formats and the code that draws them."""
    content = (report.title, report.headline, report.sections, report.language, dict(report.data), dict(report.records))
    drawing = code.of(*(f"harness.render.{name}" for name in _DRAWING))
    return sha256(pickle.dumps((content, tuple(formats), drawing), protocol=5))


def _unchanged(folder: Path, basis: str) -> dict[str, Path]:
    """Returns format -> file if the folder holds a whole report drawn from the same basis, else nothing."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        files, formats = record["files"], record["formats"]
        if record["basis"] != basis or not isinstance(files, Mapping) or not isinstance(formats, Mapping):
            return {}
        if any(sha256_file(folder / name) != checksum for name, checksum in files.items()):
            return {}
        return {str(name): folder / str(path) for name, path in formats.items()}
    except (OSError, ValueError, KeyError, TypeError, HarnessError, RecursionError):
        return {}  # the record is missing or was changed
