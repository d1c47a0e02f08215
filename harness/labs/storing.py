"""How a submission is kept: the files of its folder, and their way into place.

A folder is written aside, under a lock of its own, and moved into its place when all of it is there; then the journal
gets its line. Beside the folder stands where it is to go (`PLACE`). Whoever has the journal's lock next finds what a
killed process left aside: if the journal does not speak of its place, that is cleared, and nothing was submitted.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.data.trec import TAG
from harness.errors import HarnessError
from harness.io.files import sha256, write_all, write_atomic
from harness.labs.form import kept_scores, tagged
from harness.labs.journal import Event, Journal, Submitted
from harness.labs.lab import PRIVATE, SUBMISSIONS, Lab
from harness.labs.metadata import Said
from harness.labs.submissions import MEANS, METADATA, RUN, SCORES, SUMS, TOPICS, folder_of, sums_text
from harness.scoring.scores import Scores

ASIDE = ".staging"
PLACE = "place"
_PLACE = re.compile(rf"{TAG.pattern}/{TAG.pattern}\.v[1-9][0-9]*")


def means(lab: Lab, scores: Scores) -> dict[str, float | None]:
    """The means as they may be shown; None where no topic counts."""
    found = {measure: scores.mean(measure) for measure in scores.measures}
    return {measure: None if math.isnan(mean) else lab.shown(mean) for measure, mean in found.items()}


@dataclass(frozen=True)
class Files:
    """The files of a submission: name -> content. `private` stays with the organisers."""

    public: Mapping[str, str]
    private: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """Of the list of the public files."""
        return sha256(self.public[SUMS].encode())


def files_of(lab: Lab, said: Said, text: str, metadata: str, scores: Scores) -> Files:
    """The files of a submission; `text` and `scores` as `normal` and the lab's task gave them."""
    public = {RUN: tagged(text, said.tag), METADATA: metadata}
    private = {}
    if lab.private:
        private = {SCORES: kept_scores(scores)}
        private[SUMS] = sums_text(private)
        public[MEANS] = json.dumps({"run": said.name, "means": means(lab, scores)}, allow_nan=False) + "\n"
        if lab.per_topic:
            public[TOPICS] = _topics_text(lab, scores)
    else:
        public[SCORES] = kept_scores(scores)
    return Files({**public, SUMS: sums_text(public)}, private)


def _topics_text(lab: Lab, scores: Scores) -> str:
    """The values of topics, rounded, as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("topic", *scores.measures))
    for topic, row in zip(scores.topics, scores.values.tolist(), strict=True):
        table.writerow((topic, *("" if math.isnan(value) else lab.shown(value) for value in row)))
    return out.getvalue()


# ---- on the way into place ----------------------------------------------------------------------------------------


@contextmanager
def aside(lab: Lab, files: Files) -> Iterator[Path]:
    """A folder aside with the files, locked; what is left of it when the block ends is deleted.

    Raises
    ------
    HarnessError
        It cannot be written.
    """
    folder, handle = _locked_folder(lab.folder / ASIDE)
    try:
        _write(folder / SUBMISSIONS, files.public)
        if lab.private:
            _make_private(lab)
            _write(_private(lab, folder), files.private)
        yield folder
    finally:
        _delete(lab, folder)
        os.close(handle)


def _private(lab: Lab, folder: Path) -> Path:
    """Where the private files of a folder aside are: below the one folder that others may not read."""
    return lab.folder / PRIVATE / ASIDE / folder.name


def _make_private(lab: Lab) -> None:
    """The folder that others may not read, in a lab that became private after it was made."""
    try:
        (lab.folder / PRIVATE).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{lab.folder / PRIVATE}: cannot be made: {error.strerror or error}") from None


def _locked_folder(root: Path) -> tuple[Path, int]:
    try:
        root.mkdir(exist_ok=True)
        while True:
            folder = Path(tempfile.mkdtemp(dir=root))
            with suppress(FileNotFoundError):  # somebody who clears this place may come between
                handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(handle, fcntl.LOCK_EX)
                if folder.exists():
                    return folder, handle
                os.close(handle)
    except OSError as error:
        raise HarnessError(f"{root}: cannot be written: {error.strerror or error}") from None


def _write(folder: Path, files: Mapping[str, str]) -> None:
    write_all({folder / name: content for name, content in files.items()})


def _delete(lab: Lab, folder: Path) -> None:
    """Delete a folder aside; what is public last, since it is found by that."""
    if lab.private:
        shutil.rmtree(_private(lab, folder), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def commit(lab: Lab, journal: Journal, folder: Path, event: Submitted) -> None:
    """With the journal's lock: move a folder aside into its place, and write the line that makes it count.

    Raises
    ------
    HarnessError
        Something is in its place already, or cannot be written; then nothing was submitted.
    """
    place = folder_of(event.team, event.label, event.version)
    try:
        for root in _roots(lab):
            if (root / place).exists():
                raise HarnessError(f"{root / place}: is there already, and the journal does not speak of it; move it")
        write_atomic(folder / PLACE, place)
        if lab.private:
            _move(_private(lab, folder), lab.folder / PRIVATE / place)
        _move(folder / SUBMISSIONS, lab.folder / SUBMISSIONS / place)
        journal.append(event)
    except BaseException as error:
        journal.mend()
        settle(lab, journal, folder)
        if isinstance(error, OSError):
            raise HarnessError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from None
        raise


def _roots(lab: Lab) -> tuple[Path, ...]:
    return (lab.folder / SUBMISSIONS, *((lab.folder / PRIVATE,) if lab.private else ()))


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    for folder in (target, target.parent):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def settle(lab: Lab, journal: Journal, folder: Path) -> None:
    """With the journal's lock: what a submission that did not end left in its place is deleted."""
    try:
        place = (folder / PLACE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return  # nothing was moved yet
    if _PLACE.fullmatch(place) and place not in submitted(journal.events):
        for root in _roots(lab):
            shutil.rmtree(root / place, ignore_errors=True)
    (folder / PLACE).unlink(missing_ok=True)


def submitted(events: list[Event]) -> set[str]:
    """The places of the folders of which a journal speaks."""
    return {folder_of(each.team, each.label, each.version) for each in events if isinstance(each, Submitted)}


def clear(lab: Lab, journal: Journal) -> None:
    """With the journal's lock: delete what killed processes left; those that live have locked theirs."""
    for folder in _listed(lab.folder / ASIDE):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it just ended
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            settle(lab, journal, folder)
            _delete(lab, folder)
        except OSError:  # it lives
            continue
        finally:
            os.close(handle)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
