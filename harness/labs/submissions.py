"""What was submitted to a lab: the journal read as submissions, and their kept scores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.data.trec import Run, parse_run
from harness.errors import FormatError, HarnessError, format_error, suggestion
from harness.io.console import say
from harness.io.files import read_bytes, sha256, write_atomic
from harness.labs.form import kept_scores, normal, tagged
from harness.labs.journal import Chosen, Event, Journal, Kind, Submitted, Withdrawn
from harness.labs.lab import PRIVATE, SUBMISSIONS, Lab
from harness.scoring.scores import Scores, scores_from_json

RUN, METADATA, SCORES, SUMS = "run.txt", "run.ir-metadata.yml", "scores.json", "SHA256SUMS"
MEANS, TOPICS = "means.json", "topics.csv"
MOST_BYTES = 1 << 28  # of kept scores


@dataclass(frozen=True)
class Submission:
    """One version of a run that a team submitted.

    Attributes
    ----------
    version : from 1, of the same team and label.
    kind : `automatic`, `manual` or `post-hoc`.
    sha256 : of the run's content, whatever its file was like.
    submitted : when, UTC.
    place : from 0, in the order of the journal.
    run : its file, in the one form that all have.
    means : measure -> mean, NaN where no topic counts; rounded where the judgments are private.
    answered : topics of the collection that it answers.
    checksum : of the list of its folder's files.
    current : it is the latest version of its label that was not withdrawn.
    primary : it is its team's primary run.
    withdrawn : it was withdrawn, for `reason`.
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
    run: Path
    means: Mapping[str, float]
    answered: int
    checksum: str = field(repr=False)
    current: bool = False
    primary: bool = False
    withdrawn: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        """What the run is called: `team / label`."""
        return f"{self.team} / {self.label}"

    @property
    def title(self) -> str:
        """The name, with the version if it is not the first."""
        return self.name if self.version == 1 else f"{self.name}, version {self.version}"

    @property
    def folder(self) -> str:
        """Where it lies below `submissions/`, and below `private/`."""
        return folder_of(self.team, self.label, self.version)


def folder_of(team: str, label: str, version: int) -> str:
    """The folder of a version, below `submissions/`."""
    return f"{team}/{label}.v{version}"


def submissions(lab: Lab) -> tuple[Submission, ...]:
    """All submissions in the order of the journal, withdrawn ones and older versions too.

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
    journal = Journal(lab.folder)
    journal.catch_up()
    return from_events(journal.events, lab.folder)


def from_events(events: Sequence[Event], folder: Path) -> tuple[Submission, ...]:
    """The submissions of a lab in `folder` of which a journal tells."""
    made: dict[tuple[str, str, int], Submitted] = {}
    withdrawn: dict[tuple[str, str, int], str] = {}
    versions: dict[tuple[str, str], int] = {}
    chosen: dict[str, str] = {}
    for number, event in enumerate(events, 1):
        if isinstance(event, Chosen):
            chosen[event.team] = event.label
            continue
        at = (event.team, event.label, event.version)
        if isinstance(event, Withdrawn):
            if at not in made or at in withdrawn:
                raise _odd(folder, number, f"withdraws {folder_of(*at)}, which is not there")
            withdrawn[at] = event.reason
            continue
        if event.version != versions.get(at[:2], 0) + 1:
            raise _odd(folder, number, f"version {event.version} of {event.team} / {event.label} is out of its order")
        versions[at[:2]] = event.version
        made[at] = event
        if event.primary:
            chosen[event.team] = event.label
    current = {at[:2]: at for at in made if at not in withdrawn}
    eligible: dict[str, dict[str, tuple[str, str, int]]] = {}
    for (team, label), at in current.items():
        if made[at].kind != "post-hoc":
            eligible.setdefault(team, {})[label] = at
    primary = {labels.get(chosen.get(team, ""), next(iter(labels.values()))) for team, labels in eligible.items()}
    standing = set(current.values())
    return tuple(
        Submission(
            event.team,
            event.label,
            event.version,
            event.kind,
            event.description,
            event.code,
            event.external_data,
            event.sha256,
            event.at,
            place,
            folder / SUBMISSIONS / folder_of(*at) / RUN,
            {name: math.nan if mean is None else mean for name, mean in event.means.items()},
            event.answered,
            event.checksum,
            at in standing,
            at in primary,
            at in withdrawn,
            withdrawn.get(at, ""),
        )
        for place, (at, event) in enumerate(made.items())
    )


def _odd(folder: Path, number: int, reason: str) -> FormatError:
    return format_error(Journal(folder).path, number, f"damaged: {reason}; restore the journal from a copy")


def find(found: Iterable[Submission], team: str, label: str, version: int | None = None) -> Submission:
    """A version, or the latest one that was not withdrawn, of a team's label.

    Raises
    ------
    HarnessError
        There is none.
    """
    listed = tuple(found)
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
            raise HarnessError(f"{team} / {label} is withdrawn")
        return standing[-1]
    if not 1 <= version <= len(versions):
        raise HarnessError(f"{team} / {label} has no version {version}; it has {len(versions)}")
    return versions[version - 1]


def baseline_of(lab: Lab, found: Iterable[Submission]) -> Submission | None:
    """The submission that others are compared with; None if the lab has none, or it was not submitted yet."""
    return next((each for each in found if each.current and each.name == lab.baseline), None)


# ---- what is kept is what was written ----------------------------------------------------------------------------


def sums_text(files: Mapping[str, str]) -> str:
    """A list of checksums as `sha256sum -c` reads it; `files`: content of each."""
    return "".join(f"{sha256(content.encode())}  {name}\n" for name, content in sorted(files.items()))


def verified(folder: Path, name: str, checksum: str | None = None) -> bytes:
    """A file of a stored folder, if it is as it was written.

    Parameters
    ----------
    checksum : of the folder's list, as the journal has it; None for the list of private scores, which only says it.

    Raises
    ------
    FormatError
        It is missing or damaged.
    """
    expected = _listed(folder, checksum).get(name)
    data = read_bytes(folder / name, most=MOST_BYTES)
    if sha256(data) != expected:
        raise format_error(folder / name, 0, "damaged: is not as it was written")
    return data


def _listed(folder: Path, checksum: str | None) -> dict[str, str]:
    """The list of checksums in a stored folder: file -> SHA-256."""
    listed = read_bytes(folder / SUMS, most=1 << 16)
    if checksum is not None and sha256(listed) != checksum:
        raise format_error(folder / SUMS, 0, "damaged: is not as it was written")
    pairs = (line.partition("  ") for line in listed.decode("utf-8", "replace").splitlines())
    return {file: digest for digest, _, file in pairs}


def place_of_scores(lab: Lab, submission: Submission) -> tuple[Path, str | None]:
    """The folder of a submission's scores, and the checksum of the list of its files, if the journal has it."""
    below, checksum = (PRIVATE, None) if lab.private else (SUBMISSIONS, submission.checksum)
    return lab.folder / below / submission.folder, checksum


def scores_of(lab: Lab, submission: Submission) -> Scores:
    """The kept scores of a submission under its name `team / label`, verified; damaged ones are made again.

    Raises
    ------
    HarnessError
        They are damaged, and so is the run; or the judgments are private and only with the organisers.
    """
    folder, checksum = place_of_scores(lab, submission)
    if lab.private and not (lab.folder / PRIVATE).is_dir():
        raise HarnessError(f"{lab.folder / PRIVATE}: is not here: scores of topics are with the organisers alone")
    try:
        found = scores_from_json(json.loads(verified(folder, SCORES, checksum)))
    except (HarnessError, ValueError) as error:
        found = _again(lab, submission, error)
    return replace(found, run=submission.name)


def _again(lab: Lab, submission: Submission, error: Exception) -> Scores:
    """The scores of a run whose kept ones are damaged, which take their place."""
    folder, checksum = place_of_scores(lab, submission)
    run = stored_run(submission)
    with lab.guarded():
        found = lab.task().scorer(run)
    text = kept_scores(replace(found, run=submission.name))
    if lab.private:
        write_atomic(folder / SCORES, text)
        write_atomic(folder / SUMS, sums_text({SCORES: text}))
    else:
        # The same judgments, and the same code, give the same bytes; others are not written.
        if sha256(text.encode()) != _listed(folder, checksum).get(SCORES):
            raise format_error(folder / SCORES, 0, "damaged, and the run scores otherwise now; restore it from a copy")
        write_atomic(folder / SCORES, text)
    line = error.lines[0] if isinstance(error, HarnessError) else str(error)
    say(f"{line}; scored again from {submission.run}")
    return found


def stored_run(submission: Submission) -> Run:
    """The run of a submission, if it is as it was submitted.

    Raises
    ------
    FormatError
        Its file is missing or damaged.
    """
    data = read_bytes(submission.run)
    second = data.split(b"\n", 1)[0].split(b"\t")[1:2]
    try:
        parsed = parse_run(
            data, str(submission.run), name="kept", format="trec" if second == [b"Q0"] else "arqmath-task2"
        )
        run, text = normal(parsed, submission.name)
    except HarnessError:
        text = ""
    tag = f"{submission.team}-{submission.label}"
    if not text or run.sha256 != submission.sha256 or tagged(text, tag).encode() != data:
        raise format_error(submission.run, 0, "damaged: is not as it was submitted") from None
    return run
