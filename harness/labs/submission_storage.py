"""Storage of a submission: its metadata, the files of its folder, and their atomic move into place.

A folder is written in a staging area under its own lock and moved into place when it is complete; then the journal gets
its line. The file `PLACE` in the staging folder names the target. The next holder of the journal's lock cleans up after
killed processes: a target without an entry in the journal is deleted, as nothing was submitted. A target has a copy of
its event, from which `Journal` makes an entry again that was lost afterwards.
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
from typing import Any

import yaml

from harness.data.trec import Run
from harness.errors import HarnessError, os_errors
from harness.experiments.redacted_scores import DECIMALS
from harness.experiments.tira import metadata_of
from harness.io.files import sha256, sync, write_all, write_atomic
from harness.io.names import PLAIN_NAME
from harness.labs.folders import ENTRY, PLACE, PRIVATE, SCORES, STAGING, SUBMISSIONS, SUMS, folder_of
from harness.labs.journal import Journal, Kind, Submitted, entry_text, submitted
from harness.labs.lab import Lab
from harness.labs.submissions import MEANS, METADATA, RUN, TOPICS, kept_scores, sums_text, tagged
from harness.scoring.scores import Scores
from harness.store import cost, sidecar

_PLACE = re.compile(rf"{PLAIN_NAME.pattern}/{PLAIN_NAME.pattern}\.v[1-9][0-9]*")


@dataclass(frozen=True)
class SubmissionFiles:
    """Files of a submission, name -> content; only organisers may read `private`."""

    public: Mapping[str, str]
    private: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """SHA-256 of the checksum list of the public files."""
        return sha256(self.public[SUMS].encode())


def files_of(
    lab: Lab, details: Details, text: str, metadata: str, scores: Scores, means: Mapping[str, float | None]
) -> SubmissionFiles:
    """Returns the files of a submission.

    Parameters
    ----------
    text : in canonical form (`normal`).
    scores : from the lab's task.
    means : as participants see them; see `published.shown_means`.
    """
    public = {RUN: tagged(text, details.tag), METADATA: metadata}
    private = {}
    if lab.private:
        private = {SCORES: kept_scores(scores)}
        private[SUMS] = sums_text(private)
        public[MEANS] = json.dumps({"run": details.name, "means": means}, allow_nan=False) + "\n"
        if lab.per_topic:
            public[TOPICS] = _topics_text(scores)
    else:
        public[SCORES] = kept_scores(scores)
    return SubmissionFiles({**public, SUMS: sums_text(public)}, private)


def _topics_text(scores: Scores) -> str:
    """Formats scores per topic, rounded, as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("topic", *scores.measures))
    for topic, row in zip(scores.topics, scores.values.tolist(), strict=True):
        table.writerow((topic, *("" if math.isnan(value) else round(value, DECIMALS) for value in row)))
    return out.getvalue()


# ---- staging ------------------------------------------------------------------------------------------------------


@contextmanager
def staged(lab: Lab, files: SubmissionFiles) -> Iterator[Path]:
    """Writes the files to a locked staging folder; deletes the folder at the end of the block.

    Raises
    ------
    HarnessError
        The folder cannot be written.
    """
    folder, handle = _locked_folder(lab.folder / STAGING)
    try:
        write_all({folder / SUBMISSIONS / name: content for name, content in files.public.items()})
        if lab.private:
            private_folder(lab)
            write_all({_private(lab, folder) / name: content for name, content in files.private.items()})
        yield folder
    finally:
        _delete(lab, folder)
        os.close(handle)


def _private(lab: Lab, folder: Path) -> Path:
    """Returns the staging folder of the private files, below the folder that others may not read."""
    return lab.folder / PRIVATE / STAGING / folder.name


def private_folder(lab: Lab) -> Path:
    """Returns the folder of what only organisers may read, which is created if it is missing."""
    with os_errors(lab.folder / PRIVATE, "created"):
        (lab.folder / PRIVATE).mkdir(mode=0o700, exist_ok=True)
    return lab.folder / PRIVATE


def _locked_folder(root: Path) -> tuple[Path, int]:
    with os_errors(root, "written"):
        root.mkdir(exist_ok=True)
        while True:
            folder = Path(tempfile.mkdtemp(dir=root))
            with suppress(FileNotFoundError):  # another process may be clearing the staging area
                handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(handle, fcntl.LOCK_EX)
                if folder.exists():
                    return folder, handle
                os.close(handle)
    raise AssertionError


def _delete(lab: Lab, folder: Path) -> None:
    """Deletes a staging folder; the public part last, since cleanup finds the folder by it."""
    if lab.private:
        shutil.rmtree(_private(lab, folder), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def commit(lab: Lab, journal: Journal, folder: Path, event: Submitted) -> None:
    """Moves a staging folder into place and appends the event to the journal; requires the journal's lock.

    Raises
    ------
    HarnessError
        The target exists or cannot be written; then nothing was submitted.
    """
    place = folder_of(event.team, event.label, event.version)
    try:
        for root in _stored_folders(lab):
            if (root / place).exists():
                raise HarnessError(f"{root / place}: exists without an entry in the journal; move it elsewhere")
        write_atomic(folder / SUBMISSIONS / ENTRY, entry_text(event))
        write_atomic(folder / PLACE, place)
        if lab.private:
            _move_durably(_private(lab, folder), lab.folder / PRIVATE / place)
        _move_durably(folder / SUBMISSIONS, lab.folder / SUBMISSIONS / place)
        journal.append(event)
    except BaseException as error:
        journal.undo()
        settle(lab, journal, folder)
        if isinstance(error, OSError):
            raise HarnessError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from None
        raise


def _stored_folders(lab: Lab) -> tuple[Path, ...]:
    return (lab.folder / SUBMISSIONS, *((lab.folder / PRIVATE,) if lab.private else ()))


def _move_durably(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    sync(target, target.parent)


def settle(lab: Lab, journal: Journal, folder: Path) -> None:
    """Deletes the target of an unfinished submission; requires the journal's lock."""
    try:
        place = (folder / PLACE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return  # nothing was moved yet
    if _PLACE.fullmatch(place) and place not in submitted(journal.events):
        for root in _stored_folders(lab):
            shutil.rmtree(root / place, ignore_errors=True)
    (folder / PLACE).unlink(missing_ok=True)


def clear(lab: Lab, journal: Journal) -> None:
    """Deletes staging folders of killed processes; requires the journal's lock. Running processes lock theirs."""
    for folder in sorted((lab.folder / STAGING).glob("*")):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # its process has just finished
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            settle(lab, journal, folder)
            _delete(lab, folder)
        except OSError:  # its process is running
            continue
        finally:
            os.close(handle)


MOST_BYTES = 1 << 21  # limit on a metadata file
MOST_TAKEN = 1 << 18  # characters that are taken from it, wherever an alias repeats them
_TAKEN = ("platform", "research goal", "implementation", "method", "data", "resources")
_COSTS = (cost.PARAMETERS, cost.MEMORY, cost.GPU_MEMORY, cost.STORED)


@dataclass(frozen=True)
class Details:
    """Details of a submission given by its team, checked."""

    team: str
    label: str
    kind: Kind
    description: str
    code: str
    external_data: str

    @property
    def name(self) -> str:
        """Name of the run: `team / label`."""
        return f"{self.team} / {self.label}"

    @property
    def tag(self) -> str:
        """Tag on each line of the run: `team-label`."""
        return f"{self.team}-{self.label}"


def metadata_beside(path: Path, run: Run) -> tuple[Mapping[str, Any], str]:
    """Reads a run's provenance from its metadata file; returns it and a note if the metadata file is ignored.

    Parameters
    ----------
    path : the run's file, or a folder or archive of TIRA; the metadata is that of `tira.metadata_of`, which
        `harness run` has written, or any other ir_metadata file.
    """
    try:
        metadata, file = metadata_of(path, MOST_BYTES)
    except HarnessError as error:
        return {}, f"{error.lines[0]}; ignored"
    if file is not None and "harness" in metadata and sidecar.claimed(file)[1] != run.sha256:
        return {}, f"{file}: belongs to another run, or the run was changed; ignored"
    taken = {name: metadata[name] for name in _TAKEN if isinstance(metadata.get(name), Mapping)}
    if file is not None and "harness" in metadata and (costs := _costs(metadata["harness"])):
        taken["resources"] = {**costs, **taken.get("resources", {})}
    if _left(taken, MOST_TAKEN) < 0:
        return {}, f"{file or path}: {', '.join(taken)}: more than {MOST_TAKEN:,} characters; ignored"
    return taken, ""


def _left(value: object, most: int) -> int:
    """Returns how many of `most` characters the texts and numbers of a value leave; negative if they are more."""
    if isinstance(value, Mapping | list | tuple | set):
        parts = (*value, *value.values()) if isinstance(value, Mapping) else value
        most -= 2
        for each in parts:
            if most < 0:
                break
            most = _left(each, most)
        return most
    return most - (len(value) if isinstance(value, str | bytes) else len(str(value)))


def _costs(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the costs of a run that the harness made; latencies of topics as their mean."""
    costs = {name: part[name] for name in _COSTS if isinstance(part.get(name), int)}
    latency = part.get(cost.LATENCY)
    if isinstance(latency, Mapping) and latency:
        costs["latency"] = {"mean": f"{math.fsum(latency.values()) / len(latency):.6f} s"}
    return costs


def ranks_judged_alone(path: Path, run: Run) -> bool:
    """Returns whether a run's metadata file says that it ranks judged documents only."""
    try:
        claims = sidecar.sidecar_of_document(metadata_of(path, MOST_BYTES)[0])
    except HarnessError:
        return False
    return claims is not None and claims.pool is True and claims.sha256 == run.sha256


def metadata_text(lab: Lab, details: Details, run: Run, made: Mapping[str, Any]) -> str:
    """Returns the content of the metadata file; nothing in it depends on judgments.

    Parameters
    ----------
    run : in canonical form.
    made : provenance from `metadata_beside`.
    """
    content = {name: dict(made.get(name, {})) for name in _TAKEN}
    if lab.private:
        content["data"].pop("training data", None)  # a checksum of judgments would confirm guesses
    content["method"]["automatic"] = details.kind == "automatic"
    content["data"]["test collection"] = {"name": lab.collection, "edition": lab.edition}
    if details.external_data:
        content["data"]["external data"] = details.external_data
    if details.code:
        source = content["implementation"].get("source")
        kept = source if isinstance(source, Mapping) else {}
        content["implementation"]["source"] = {**kept, "repository": details.code}
    document = {
        "tag": details.tag,
        **{name: part for name, part in content.items() if part},
        "actor": {"team": details.team},
        "lab": {
            "title": lab.title,
            "run": details.name,
            "kind": details.kind,
            **({"description": details.description} if details.description else {}),
            "content sha256": run.sha256,
        },
    }
    out: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return out
