"""Submissions of a lab, from its journal, and their stored runs and scores: equal content gives equal bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.data.run_writers import run_text
from harness.data.trec import Run, parse_run
from harness.errors import FormatError, HarnessError, format_error, gather, suggestion
from harness.io.console import log_line
from harness.io.files import read_bytes, sha256, write_atomic
from harness.labs.folders import ENTRY, PRIVATE, SCORES, SUBMISSIONS, SUMS, folder_of
from harness.labs.journal import (
    Act,
    Appealed,
    Disqualified,
    Event,
    Journal,
    Kind,
    PrimaryRunChosen,
    Reinstated,
    Rejudged,
    Submitted,
)
from harness.labs.lab import Lab
from harness.scoring.scores import Scores, scores_from_json, scores_to_json

RUN, METADATA = "run.txt", "run.ir-metadata.yml"
MEANS, TOPICS = "means.json", "topics.csv"
MOST_BYTES = 1 << 28  # limit on a stored file's unpacked content, or its size on disk if that is larger


@dataclass(frozen=True)
class Submission:
    """One version of a run that a team submitted.

    Attributes
    ----------
    version : from 1, among submissions of the same team and label.
    kind : `automatic`, `manual` or `post-hoc`.
    sha256 : of the run's canonical text.
    submitted : time, UTC.
    place : position in the journal among all submissions, from 0.
    lab : folder of the lab.
    means : measure -> mean, NaN if no topic counts; rounded if the judgments are private.
    answered : number of topics of the collection that it answers.
    checksum : of the list of its folder's files.
    current : whether it is the latest version of its label that was neither withdrawn nor disqualified.
    primary : whether it is its team's primary run.
    withdrawn : whether it was withdrawn, for `reason`.
    disqualified : the organisers' reason, `-` if they gave none; empty if it is not disqualified.
    appeal : the team's latest appeal; empty without one.
    reinstated : the organisers' reason to lift its last disqualification, `-` if they gave none; empty if it was never
        disqualified, or is.
    refunded : whether it does not count towards the caps.
    """

    team: str
    label: str
    version: int
    kind: Kind
    description: str
    code: str
    external_data: str
    sha256: str
    submitted: str
    place: int
    lab: Path
    means: Mapping[str, float]
    answered: int
    checksum: str = field(repr=False)
    current: bool = False
    primary: bool = False
    withdrawn: bool = False
    reason: str = ""
    disqualified: str = ""
    appeal: str = ""
    refunded: bool = False
    reinstated: str = ""

    @property
    def run(self) -> Path:
        """File of the run, in canonical form."""
        return self.lab / SUBMISSIONS / self.folder / RUN

    @property
    def name(self) -> str:
        """Name of the run: `team / label`."""
        return f"{self.team} / {self.label}"

    @property
    def title(self) -> str:
        """Name of the run, with the version from the second on."""
        return self.name if self.version == 1 else f"{self.name}, version {self.version}"

    @property
    def folder(self) -> str:
        """Its folder relative to `submissions/` and `private/`."""
        return folder_of(self.team, self.label, self.version)


def submissions(lab: Lab) -> tuple[Submission, ...]:
    """Reads all submissions in the order of the journal, including withdrawn ones and older versions.

    Raises
    ------
    HarnessError
        The journal is missing or damaged.

    Examples
    --------
    >>> from harness.labs.lab import new_lab
    >>> submissions(new_lab(Path("labs/empty"), {"title": "Empty", "collection": "mini-task1"}))
    ()
    """
    return from_events(events(lab), lab.folder)


def events(lab: Lab) -> Sequence[Event]:
    """Reads the events of a lab's journal in order, and those that its end has lost, of which it says a line each.

    Raises
    ------
    HarnessError
        The journal is missing or damaged.
    """
    journal = Journal(lab.folder)
    journal.catch_up()
    lost, lines = journal.lost()
    for line in lines:
        log_line(f"warning: {line}")
    return [*journal.events, *lost]


def refuse_if_rejudged(lab: Lab, events: Sequence[Event]) -> None:
    """Raises HarnessError if the lab was replaced by one of another edition, which has copies of its events."""
    if any(isinstance(event, Rejudged) for event in events):
        raise HarnessError(f"{lab.folder}: was re-judged and stays as it is; use the lab of the new edition")


# Of the event, as they are.
_KEPT = ("team", "label", "version", "kind", "description", "code", "external_data", "sha256", "answered", "checksum")


def from_events(given: Sequence[Event], folder: Path) -> tuple[Submission, ...]:
    """Builds the submissions of the lab in `folder` from the events `given` by its journal."""
    made: dict[tuple[str, str, int], Submitted] = {}
    versions: dict[tuple[str, str], int] = {}
    chosen: dict[str, str] = {}
    acts: dict[tuple[str, str, int], dict[str, str]] = {}
    for number, event in enumerate(given, 1):
        if isinstance(event, PrimaryRunChosen):
            chosen[event.team] = event.label
        elif isinstance(event, Submitted):
            at = (event.team, event.label, event.version)
            if event.version != versions.get(at[:2], 0) + 1:
                reason = f"version {event.version} of {event.team} / {event.label} is out of order"
                raise _damaged_journal_error(folder, number, reason)
            versions[at[:2]] = event.version
            made[at] = event
            acts[at] = {}
            if event.primary:
                chosen[event.team] = event.label
        elif isinstance(event, Act):
            at = (event.team, event.label, event.version)
            if at not in made or not _allowed(acts[at], event):
                reason = f"{event.event} {folder_of(*at)}, which does not exist or is in no such state"
                raise _damaged_journal_error(folder, number, reason)
            acts[at][event.event] = event.reason
            if isinstance(event, Reinstated):
                del acts[at][Disqualified.event]
            elif isinstance(event, Disqualified):
                acts[at].pop(Reinstated.event, None)
    out = {at for at, done in acts.items() if not done.keys().isdisjoint(("withdrawn", "disqualified"))}
    current = {at[:2]: at for at in made if at not in out}
    eligible: dict[str, dict[str, tuple[str, str, int]]] = {}
    for (team, label), at in current.items():
        if made[at].kind != "post-hoc":
            eligible.setdefault(team, {})[label] = at
    primary = {labels.get(chosen.get(team, ""), next(iter(labels.values()))) for team, labels in eligible.items()}
    standing = set(current.values())
    return tuple(
        Submission(
            **{name: getattr(event, name) for name in _KEPT},
            submitted=event.at,
            place=place,
            lab=folder,
            means={name: math.nan if mean is None else mean for name, mean in event.means.items()},
            current=at in standing,
            primary=at in primary,
            withdrawn="withdrawn" in acts[at],
            reason=acts[at].get("withdrawn", ""),
            disqualified=acts[at]["disqualified"] or "-" if "disqualified" in acts[at] else "",
            appeal=acts[at].get("appealed", ""),
            refunded="refunded" in acts[at],
            reinstated=acts[at]["reinstated"] or "-" if "reinstated" in acts[at] else "",
        )
        for place, (at, event) in enumerate(made.items())
    )


def _allowed(done: Mapping[str, str], act: Act) -> bool:
    """Returns whether an act on a version may follow the acts `done` on it."""
    if isinstance(act, Appealed | Reinstated):
        return "disqualified" in done
    return act.event not in done


def _damaged_journal_error(folder: Path, number: int, reason: str) -> FormatError:
    return format_error(Journal(folder).path, number, f"damaged: {reason}; restore the journal from a copy")


def find_submission(among: Iterable[Submission], team: str, label: str, version: int | None = None) -> Submission:
    """Returns a version of a team's label, by default the latest one that was not withdrawn.

    Raises
    ------
    HarnessError
        The team, label or version does not exist, or every version was withdrawn.
    """
    listed = tuple(among)
    teams = {each.team for each in listed}
    if team not in teams:
        raise HarnessError(f"team {team!r} has submitted nothing; {suggestion(team, teams)}")
    labels = {each.label for each in listed if each.team == team}
    if label not in labels:
        raise HarnessError(f"team {team} has no run {label!r}; {suggestion(label, labels)}")
    versions = [each for each in listed if (each.team, each.label) == (team, label)]
    if version is None:
        standing = [each for each in versions if not each.withdrawn]
        if not standing:
            raise HarnessError(f"{team} / {label} was withdrawn already")
        return standing[-1]
    if not 1 <= version <= len(versions):
        raise HarnessError(f"{team} / {label} has no version {version}; it has {len(versions)}")
    return versions[version - 1]


def baseline_of(lab: Lab, among: Iterable[Submission]) -> Submission | None:
    """Returns the lab's baseline; None if the lab has none or it was not submitted yet."""
    return next((each for each in among if each.current and each.name == lab.baseline), None)


# ---- integrity of stored files -----------------------------------------------------------------------------------


def sums_text(files: Mapping[str, str]) -> str:
    """Formats checksums of files (name -> content) for `sha256sum -c`."""
    return "".join(f"{sha256(content.encode())}  {name}\n" for name, content in sorted(files.items()))


def verified(folder: Path, name: str, checksum: str | None = None) -> bytes:
    """Reads a file of a stored folder and verifies its checksum.

    Parameters
    ----------
    checksum : of the folder's checksum list, from the journal; None for private scores, whose list the journal lacks.

    Raises
    ------
    FormatError
        The file or the list is missing or damaged.
    """
    expected = _listed(folder, checksum).get(name)
    size = 0
    with suppress(OSError):  # `read_bytes` says what is wrong
        size = (folder / name).stat().st_size
    # A lab may accept runs of any size; the limit is for content that is far larger unpacked.
    data = read_bytes(folder / name, most=max(MOST_BYTES, size))
    if sha256(data) != expected:
        raise format_error(folder / name, 0, "damaged: the checksum differs")
    return data


def _listed(folder: Path, checksum: str | None) -> dict[str, str]:
    """Reads the checksum list of a stored folder: file -> SHA-256."""
    listed = read_bytes(folder / SUMS, most=1 << 16)
    if checksum is not None and sha256(listed) != checksum:
        raise format_error(folder / SUMS, 0, "damaged: the checksum differs")
    pairs = (line.partition("  ") for line in listed.decode("utf-8", "replace").splitlines())
    return {file: digest for digest, _, file in pairs}


def file_faults(folder: Path, checksum: str | None) -> list[str]:
    """Returns a line for each file of a stored folder that is missing, changed or not in its checksum list.

    Parameters
    ----------
    checksum : as for `verified`.
    """
    faults: list[str] = []
    with gather(faults):
        listed = _listed(folder, checksum)
        for name in listed:
            with gather(faults):
                verified(folder, name, checksum)
        foreign = (path for path in sorted(folder.iterdir()) if path.name not in {*listed, SUMS, ENTRY})
        faults += [f"{path}: is not listed in {SUMS}" for path in foreign]
    return faults


def place_of_scores(lab: Lab, submission: Submission) -> tuple[Path, str | None]:
    """Returns the folder of a submission's scores, and the checksum of its list if the journal has it."""
    below, checksum = (PRIVATE, None) if lab.private else (SUBMISSIONS, submission.checksum)
    return lab.folder / below / submission.folder, checksum


def scores_of(lab: Lab, submission: Submission) -> Scores:
    """Reads and verifies a submission's scores; recomputes damaged ones from the run.

    Raises
    ------
    HarnessError
        Both the scores and the run are damaged, or the judgments are private and this copy of the lab lacks them.
    """
    folder, checksum = place_of_scores(lab, submission)
    if lab.private and not (lab.folder / PRIVATE).is_dir():
        raise HarnessError(f"{lab.folder / PRIVATE}: missing: only the organisers have scores per topic")
    try:
        scores = scores_from_json(json.loads(verified(folder, SCORES, checksum)))
    except (HarnessError, ValueError) as error:
        scores = _rescored(lab, submission, error)
    return replace(scores, run=submission.name)


def _rescored(lab: Lab, submission: Submission, error: Exception) -> Scores:
    """Scores a stored run again and replaces its damaged scores."""
    folder, checksum = place_of_scores(lab, submission)
    run = stored_run(submission)
    with lab.guarded():
        scores = lab.task().scorer(run)
    text = kept_scores(replace(scores, run=submission.name))
    if lab.private:
        write_atomic(folder / SCORES, text)
        write_atomic(folder / SUMS, sums_text({SCORES: text}))
    else:
        # Only scores equal to the recorded checksum replace damaged ones.
        if sha256(text.encode()) != _listed(folder, checksum).get(SCORES):
            reason = "damaged, and the run now has other scores; restore the file from a copy"
            raise format_error(folder / SCORES, 0, reason)
        write_atomic(folder / SCORES, text)
    line = error.lines[0] if isinstance(error, HarnessError) else str(error)
    log_line(f"{line}; scored again from {submission.run}")
    return scores


def stored_run(submission: Submission) -> Run:
    """Reads a submission's run and verifies it.

    Raises
    ------
    FormatError
        The file is missing or damaged.
    """
    data = read_bytes(submission.run)
    # The journal has the checksum of the canonical text, so equal text is canonical: no need to write the run again.
    text = untagged(data, f"{submission.team}-{submission.label}")
    if text is None or sha256(text) != submission.sha256:
        raise format_error(submission.run, 0, "damaged: differs from the submitted run")
    second = data.split(b"\n", 1)[0].split(b"\t")[1:2]
    layout = "trec" if second == [b"Q0"] else "arqmath-task2"
    run = parse_run(data, str(submission.run), name="kept", format=layout)
    return Run(submission.name, run.topics, run.topic, run.doc, run.score, run.context, submission.sha256)


_NO_TAG = "-"


def normal(run: Run, name: str) -> tuple[Run, str]:
    """Converts a run to its canonical form; returns it and its text without a tag, whose SHA-256 it gets.

    Topics are sorted; results are ordered by score, equal scores as in the file. Files that differ only in tags, ranks,
    layout or compression have the same canonical text.

    Examples
    --------
    >>> one = Run.from_dict("mine", {"A.2": {"d1": 1.0}, "A.1": {"d1": 1.0, "d2": 2.0}})
    >>> run, text = normal(one, "DPRL / first")
    >>> print(tagged(text, "DPRL-first").replace(chr(9), " "), end="")
    A.1 Q0 d2 1 2.0 DPRL-first
    A.1 Q0 d1 2 1.0 DPRL-first
    A.2 Q0 d1 1 1.0 DPRL-first
    """
    topics = tuple(sorted(run.topics))
    index = {topic: at for at, topic in enumerate(topics)}
    topic = np.array([index[each] for each in run.topics], dtype=np.int32)[run.topic]
    order = np.lexsort((-run.score, topic))
    context = None if run.context is None else run.context[order]
    out = Run(name, topics, topic[order], run.doc[order], run.score[order], context)
    text = run_text(replace(out, name=_NO_TAG), format="trec" if context is None else "arqmath-task2")
    return replace(out, sha256=sha256(text.encode())), text


def tagged(text: str, tag: str) -> str:
    """Puts the tag on every line of a run's canonical text."""
    return text.replace(f"\t{_NO_TAG}\n", f"\t{tag}\n")


def untagged(data: bytes, tag: str) -> bytes | None:
    """Returns the canonical text of a run's bytes without the tag; None if some line has another tag.

    Examples
    --------
    >>> untagged(tagged("A.1\\tQ0\\td1\\t1\\t1.0\\t-\\n", "DPRL-first").encode(), "DPRL-first")
    b'A.1\\tQ0\\td1\\t1\\t1.0\\t-\\n'
    """
    mark, own = f"\t{_NO_TAG}\n".encode(), f"\t{tag}\n".encode()
    text = data.replace(own, mark)
    return text if text.replace(mark, own) == data else None


def kept_scores(scores: Scores) -> str:
    """Serialises scores as they are stored."""
    return json.dumps(scores_to_json(scores), allow_nan=False) + "\n"
