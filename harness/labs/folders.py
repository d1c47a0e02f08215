"""The folder of a lab: names of its files, and what its folders of submissions hold."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from harness.errors import HarnessError
from harness.io.files import sha256_file

LAB = "lab.yaml"
SUBMISSIONS, PRIVATE, STAGING = "submissions", "private", ".staging"
SUMS, SCORES, ENTRY = "SHA256SUMS", "scores.json", "entry.json"  # files of a submission
PLACE = "place"  # file of a staging folder: where the submission belongs


def lab_around(folder: Path) -> Path | None:
    """Returns the lab that a folder is, or in which it is or would be, wherever links lead; None outside of labs."""
    real = Path(os.path.realpath(folder))
    lab = next((each for each in (real, *real.parents) if (each / LAB).is_file()), None)
    # As it was named, if it was.
    return next((each for each in (folder, *folder.parents) if lab == Path(os.path.realpath(each))), lab)


def is_kept(folder: Path) -> bool:
    """Returns whether a folder is or would be among those in which a lab keeps submissions and private files."""
    if (lab := lab_around(folder)) is None:
        return False
    below = Path(os.path.realpath(folder)).relative_to(os.path.realpath(lab)).parts
    return below[:1] in {(SUBMISSIONS,), (PRIVATE,), (STAGING,)}


def folder_of(team: str, label: str, version: int) -> str:
    """Returns the folder of a version relative to `submissions/`."""
    return f"{team}/{label}.v{version}"


def places(lab: Path) -> set[str]:
    """Returns the folders below `submissions/` of the lab in a folder, as `folder_of` names them."""
    folders = (lab / SUBMISSIONS).glob("[!.]*/[!.]*")
    return {path.relative_to(lab / SUBMISSIONS).as_posix() for path in folders if path.is_dir()}


def unfinished(lab: Path) -> set[str]:
    """Returns the folders of submissions that are being made, or whose process was killed."""
    names = set()
    for path in (lab / STAGING).glob(f"*/{PLACE}"):
        with suppress(OSError, ValueError):
            names.add(path.read_text(encoding="utf-8"))
    return names


def fault(lab: Path, place: str, checksum: str) -> str:
    """Returns what is wrong with the files of a submission; empty if they are those of its event.

    Parameters
    ----------
    checksum : of the list of the folder's files.
    """
    folder = lab / SUBMISSIONS / place
    try:
        if sha256_file(folder / SUMS) != checksum:
            return f"{SUMS} was changed"
        lines = (folder / SUMS).read_text("utf-8", "replace").splitlines()
        listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        changed = [name for name, digest in listed.items() if sha256_file(folder / name) != digest]
    except (OSError, HarnessError) as error:
        return str(error)
    if changed:
        return f"{changed[0]} was changed"
    if SCORES not in listed and (lab / PRIVATE).is_dir() and not (lab / PRIVATE / place).is_dir():
        return f"{PRIVATE}/{place} is missing"
    return ""
