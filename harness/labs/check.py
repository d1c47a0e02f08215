"""Integrity check of a lab for its organisers: files against checksums, scores against the judgments."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from harness.errors import HarnessError, gather, refuse
from harness.experiments.task import Task
from harness.io.console import track
from harness.labs.folders import ENTRY, PRIVATE, SCORES, SUBMISSIONS, folder_of
from harness.labs.journal import Event, Journal, Submitted, entry_text
from harness.labs.lab import Lab, others_may_read
from harness.labs.shown_scores import commitment, public_and_held_out, shown_before, shown_means
from harness.labs.submissions import (
    Submission,
    file_faults,
    from_events,
    place_of_scores,
    stored_run,
    verified,
)
from harness.scoring.scores import Scores, least_step, scores_from_json, scores_to_json


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
        faults.append(
            f"{lab.folder / PRIVATE}: no such folder, exact scores are not checked; only the organisers have them"
        )
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
    return recorded.keys() == set(scores.measures) and all(
        mean is None or mean == before.get(name) or abs(mean - scores.aggregate(name)) <= slack
        for name, mean in recorded.items()
    )


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
