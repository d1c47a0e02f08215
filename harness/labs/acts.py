"""Acts of a lab's organisers and appeals of teams, each an event of the journal; and the check of a lab's integrity."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import yaml

from harness.errors import HarnessError, gather, refuse
from harness.experiments.task import Task
from harness.io import config
from harness.io.console import track
from harness.io.files import read_bytes, write_atomic
from harness.labs.closing import changed, has_ended
from harness.labs.folders import ENTRY, PRIVATE, SCORES, SUBMISSIONS, folder_of
from harness.labs.journal import (
    Appealed,
    Committed,
    Disqualified,
    Event,
    Journal,
    Refunded,
    Reinstated,
    Rejudged,
    Revealed,
    Submitted,
    entry_text,
)
from harness.labs.lab import FILE, Lab, new_lab, others_may_read
from harness.labs.names import nfc, normalised_reason, stamp
from harness.labs.roster import NAMES, known_as
from harness.labs.shown_scores import commitment, public_and_held_out, seed_of, shown_before, shown_means, stored_key
from harness.labs.submission_storage import Details, commit, files_of, staged
from harness.labs.submissions import (
    METADATA,
    Submission,
    file_faults,
    find_submission,
    from_events,
    normal,
    place_of_scores,
    stored_run,
    verified,
)
from harness.scoring.scores import Scores, least_step, scores_from_json, scores_to_json
from harness.version import __version__

Kind = type[Refunded] | type[Disqualified] | type[Appealed] | type[Reinstated]


def act(
    lab: Lab,
    kind: Kind,
    team: str,
    label: str,
    version: int | None = None,
    reason: str = "",
    *,
    now: datetime | None = None,
) -> Submission:
    """Records a refund, a disqualification, an appeal or a reinstatement of a version, by default the latest one.

    Raises
    ------
    HarnessError
        The version does not exist, is refunded or disqualified already, or is not disqualified; a team appeals while
        the lab is frozen; or the reason is unprintable or too long.

    Examples
    --------
    >>> from harness.labs.submit import Offer, submit_run
    >>> lab = new_lab(Path("labs/acts"), {"title": "Acts", "collection": "mini-task1"})
    >>> made = submit_run(lab, Offer(Path("runs/mini/mini-task1/overlap.run"), "DPRL", "first"))
    >>> act(lab, Disqualified, "DPRL", "first", reason="Uses the judgments.").disqualified
    'Uses the judgments.'
    """
    reason, team, label = normalised_reason(reason), known_as(lab, team), nfc(label)
    with changed(lab, by_team=kind is Appealed) as journal:
        submissions = from_events(journal.events, lab.folder)
        mine = [each for each in submissions if (each.team, each.label) == (team, label)]
        if version is None and mine and all(each.withdrawn for each in mine):
            raise HarnessError(f"{mine[0].name}: all versions are withdrawn; name one with --version")
        chosen = find_submission(submissions, team, label, version)
        if kind in (Appealed, Reinstated) and not chosen.disqualified:
            raise HarnessError(f"{chosen.title}: is not disqualified")
        if (kind is Refunded and chosen.refunded) or (kind is Disqualified and chosen.disqualified):
            raise HarnessError(f"{chosen.title}: is {kind.event} already")
        journal.append(kind(chosen.team, chosen.label, chosen.version, reason, stamp(now)))
        return from_events(journal.events, lab.folder)[chosen.place]


def reveal(lab: Lab, *, now: datetime | None = None) -> str:
    """Ends a lab with private judgments, which then takes post-hoc runs only; returns the seed of held-out topics.

    The journal gets the seed, which draws the topics and does not tell the noise of means; labs of earlier versions
    without held-out topics have none.

    Raises
    ------
    HarnessError
        The judgments are public, the deadline is not over, the lab has ended, or the seed is missing or wrong.
    """
    if not lab.private:
        raise HarnessError(f"{lab.folder}: its judgments are public; there is nothing to reveal")
    now = now or datetime.now(UTC)
    if lab.deadline is not None and now <= lab.deadline:
        raise HarnessError(f"{lab.folder}: the deadline, {lab.deadline.isoformat()}, is not over; reveal the seed then")
    with changed(lab) as journal:
        seed = seed_of(lab, journal.events) if commitment(journal.events) else ""
        if has_ended(journal.events):
            raise HarnessError(f"{lab.folder}: the lab has ended already{f'; its seed is {seed}' if seed else ''}")
        journal.append(Revealed(seed, stamp(now)))
    return seed


def rejudge(lab: Lab, folder: Path, edition: str, reason: str = "", *, now: datetime | None = None) -> Lab:
    """Makes a lab with the same submissions under another edition of the judgments, and closes this one.

    All events keep their times, and the held-out topics their seed: with another one, organisers could choose among
    rankings, and participants would see means of both halves. The noise depends on the judgments: otherwise the two
    means of a run would tell what they differ by.

    Raises
    ------
    HarnessError
        The folder exists, the edition is unknown, the lab was re-judged before, or a stored run is damaged.
    """
    reason = normalised_reason(reason)
    with changed(lab) as journal:
        settings = config.parse(read_bytes(lab.folder / FILE, most=1 << 20), str(lab.folder / FILE))
        committed = commitment(journal.events)
        kept = None if committed is None else (stored_key(lab, journal.events), committed)
        wanted = {**settings, "edition": edition, "step": None}
        made = new_lab(folder, wanted, commitment=kept, fill=partial(_replay, lab, journal))
        try:
            journal.append(Rejudged(made.edition, reason, stamp(now)))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return made


def _replay(lab: Lab, journal: Journal, made: Lab) -> None:
    """Repeats the events of a lab in a new one, whose judgments score the runs."""
    if (lab.folder / PRIVATE / NAMES).is_file():
        (made.folder / PRIVATE).mkdir(mode=0o700, exist_ok=True)
        write_atomic(made.folder / PRIVATE / NAMES, read_bytes(lab.folder / PRIVATE / NAMES, most=1 << 20))
    bench, old = made.task(), iter(from_events(journal.events, lab.folder))
    copy = Journal(made.folder)
    with copy.locked():
        for event in journal.events:
            if isinstance(event, Committed):
                continue  # the new lab begins with it
            if not isinstance(event, Submitted):
                copy.append(event)
                continue
            submission = next(old)
            run, text = normal(stored_run(submission), submission.name)
            with made.guarded():
                scores = bench.scorer(run)
            topics, _ = public_and_held_out(made, copy.events, scores.topics)
            before = shown_before(made, from_events(copy.events, made.folder), event.team)
            means = shown_means(made, copy.events, scores.select(topics), event.team, run.sha256, before)
            details = Details(event.team, event.label, event.kind, event.description, event.code, event.external_data)
            files = files_of(made, details, text, _metadata(made, submission), scores, means)
            with staged(made, files) as staging:
                again = replace(event, checksum=files.checksum, means=means, harness=f"mathir-harness {__version__}")
                commit(made, copy, staging, again)


def _metadata(made: Lab, submission: Submission) -> str:
    """Returns the metadata of a submission with the new lab's edition."""
    metadata = yaml.safe_load(verified(submission.run.parent, METADATA, submission.checksum))
    metadata["data"]["test collection"]["edition"] = made.edition
    out: str = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120)
    return out


def lab_faults(lab: Lab) -> list[str]:
    """Returns the faults of a lab, one line each; for organisers only, as the lines may reveal judgments.

    Every run is scored again from its file.

    Raises
    ------
    HarnessError
        The lab cannot be checked: its journal is damaged, or its collection cannot be read.
    """
    journal = Journal(lab.folder)
    journal.catch_up()
    lost, faults = journal.lost()
    events = [*journal.events, *lost]
    submissions = from_events(events, lab.folder)
    bench = lab.task()
    faults += [wrong] if (wrong := others_may_read(lab)) else []
    if lab.baseline and not any(each.name == lab.baseline for each in submissions):
        faults.append(f"baseline {lab.baseline!r} was not submitted yet")
    stored = not lab.private or (lab.folder / PRIVATE).is_dir()
    if submissions and not stored:
        reason = f"{lab.folder / PRIVATE}: no such folder, exact scores are not checked; only the organisers have them"
        faults.append(reason)
    topics = None
    with gather(faults):
        topics = public_and_held_out(lab, events, bench.scorer.qrels.topics)[0] if stored else None
    for each in track(submissions, "checking submissions"):
        with gather(faults):
            _check_one(lab, each, bench, stored, topics, events, submissions)
    return [*faults, *_changed_entries(lab, events), *_unknown_folders(lab, submissions, faults)]


def _check_one(
    lab: Lab,
    submission: Submission,
    bench: Task,
    stored: bool,
    topics: frozenset[str] | None,
    events: Sequence[Event],
    submissions: Sequence[Submission],
) -> None:
    """Raises HarnessError if files of a submission changed, or its run has other scores.

    Parameters
    ----------
    stored : whether scores are here.
    topics : the topics whose means are public; None if unknown, then means are not checked.
    events, submissions : of the lab's journal.
    """
    folder, checksum = place_of_scores(lab, submission)
    refuse(file_faults(submission.run.parent, submission.checksum))
    if lab.private and stored:
        refuse(file_faults(folder, checksum))
    scores = replace(bench.scorer(stored_run(submission)), run=submission.name)
    if stored:
        try:
            kept = scores_from_json(json.loads(verified(folder, SCORES, checksum)))
        except ValueError as error:
            raise HarnessError(f"{folder / SCORES}: damaged: {error}") from None
        if json.dumps(scores_to_json(kept)) != json.dumps(scores_to_json(scores)):
            raise HarnessError(f"{folder / SCORES}: the run now has other scores; check whether the collection changed")
    recorded = {name: None if math.isnan(mean) else mean for name, mean in submission.means.items()}
    if topics is not None:
        kept, before = scores.select(topics), shown_before(lab, submissions[: submission.place], submission.team)
        expected = shown_means(lab, events, kept, submission.team, submission.sha256, before)
        if recorded != expected and not _is_of_earlier_version(lab, events, kept, recorded, before):
            raise HarnessError(f"{submission.title}: the means in the journal differ from those of its scores")


def _is_of_earlier_version(
    lab: Lab,
    events: Sequence[Event],
    scores: Scores,
    recorded: Mapping[str, float | None],
    before: Mapping[str, float | None],
) -> bool:
    """Returns whether the means in the journal are those that an earlier version showed."""
    if not lab.private:  # counts were recorded as means before version 0.3
        return recorded == {name: None if math.isnan(mean := scores.mean(name)) else mean for name in scores.measures}
    if commitment(events) is not None and not lab.step:
        return False
    # Private means were rounded to a step, or to decimals, and the ladder showed those before again.
    slack = 0.5 * max([lab.step, 0.1, *(least_step(scores.n(name)) for name in scores.measures)]) + 1e-6
    known = {name: mean for name, mean in recorded.items() if mean is not None and mean != before.get(name)}
    near = (abs(mean - scores.aggregate(name)) <= slack for name, mean in known.items())
    return recorded.keys() == set(scores.measures) and all(near)


def _changed_entries(lab: Lab, events: Sequence[Event]) -> Iterator[str]:
    """Yields a line for each copy of an event that differs from the journal; labs of old versions have no copies."""
    for event in events:
        if isinstance(event, Submitted):
            path = lab.folder / SUBMISSIONS / folder_of(event.team, event.label, event.version) / ENTRY
            with suppress(OSError):
                if path.read_bytes() != entry_text(event).encode():
                    yield f"{path}: differs from the journal"


def _unknown_folders(lab: Lab, submissions: Sequence[Submission], faults: Sequence[str]) -> Iterator[str]:
    """Yields a line for each folder without an entry in the journal that no fault names yet."""
    known = {each.folder for each in submissions}
    for root in (SUBMISSIONS, PRIVATE):
        for folder in sorted((lab.folder / root).glob("[!.]*/*")):
            named = any(fault.startswith(f"{folder}: ") for fault in faults)
            if folder.relative_to(lab.folder / root).as_posix() not in known and not named:
                yield f"{folder}: has no entry in the journal"
