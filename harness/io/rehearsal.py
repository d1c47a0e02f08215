"""The mark of a rehearsal: inside one, stand-ins replace resources; outside, runs made from stand-ins are refused."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from harness.errors import HarnessError

VARIABLE = "HARNESS_REHEARSAL"  # set by `harness rehearse` for the commands that it runs: the folder of the stand-ins
ABOUT = "rehearsal.yaml"  # which that folder holds
BEGINNING = "made by: mathir-harness"  # of that file
MARK = "made from stand-ins"  # key in a run's metadata file
_ENDING = ".ir-metadata.yml"
_COMPRESSED = (".gz", ".xz", ".zst")
_MARKED = re.compile(rf"{MARK}[\"']?\s*:\s*true".encode())  # in YAML or JSON, also of a damaged file
_MOST = 1 << 26


def folder() -> Path | None:
    """Returns the folder of the rehearsal that this process is part of; None outside of one.

    Raises
    ------
    HarnessError
        The variable names a folder without a rehearsal.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    if not Path(named, ABOUT).is_file():
        raise HarnessError(f"{VARIABLE}={named}: holds no rehearsal; unset it (harness rehearse sets it by itself)")
    return Path(named)


def refuse(run: Path) -> None:
    """Raises HarnessError for a run file that was made from stand-ins.

    It is one if it, or what it links to, is in the folder of a rehearsal or has a metadata file that says so. Inside a
    rehearsal nothing is refused: its fusions read its runs.
    """
    if folder() is not None:
        return
    places = {run, Path(os.path.realpath(run))}
    if any(_around(str(place.absolute().parent)) or _marked(place) for place in places):
        raise HarnessError(
            f"{run}: was made from stand-ins by harness rehearse, so its scores mean nothing; "
            "make it again with harness run"
        )


def refuse_resource(path: Path) -> None:
    """Raises HarnessError for a file or folder in the folder of a rehearsal, outside of that rehearsal."""
    if folder() is None and (root := _around(os.path.realpath(path))):
        raise HarnessError(f"{path}: is in {root}, the folder of a rehearsal, which holds stand-ins only")


@cache
def _around(path: str) -> str:
    """Returns the folder of the rehearsal that a folder is in; empty if it is in none."""
    for place in (Path(path), *Path(path).parents):
        try:
            with (place / ABOUT).open("rb") as stream:
                if stream.read(len(BEGINNING)) == BEGINNING.encode():
                    return str(place)
        except OSError:
            continue
    return ""


def _marked(run: Path) -> bool:
    name = run.name
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    side = run.parent / f"{Path(name).stem}{_ENDING}"
    try:
        with side.open("rb") as stream:
            return bool(_MARKED.search(stream.read(_MOST)))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise HarnessError(f"{side}: cannot be read: {error.strerror or error}") from None
