"""Whether all of a lab is as it was written, and its scores are what the judgments say: for its organisers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.errors import HarnessError, gather
from harness.experiments.task import Task
from harness.io.console import track
from harness.labs.lab import PRIVATE, SUBMISSIONS, Lab, others_may_read
from harness.labs.storing import means
from harness.labs.submissions import METADATA, SCORES, Submission, place_of_scores, stored_run, submissions, verified
from harness.scoring.scores import scores_from_json, scores_to_json


def check(lab: Lab) -> list[str]:
    """What is wrong with a lab, a line each; its faults may speak of judgments.

    Every run is scored again from its file.

    Raises
    ------
    HarnessError
        The lab cannot be checked: its journal is damaged, or its collection cannot be read.
    """
    found = submissions(lab)
    bench = lab.task()
    faults = [wrong] if (wrong := others_may_read(lab)) else []
    if lab.baseline and not any(each.name == lab.baseline for each in found):
        faults.append(f"baseline {lab.baseline!r} was not submitted yet")
    for each in track(found, "checking submissions"):
        with gather(faults):
            _check_one(lab, each, bench)
    return [*faults, *_strangers(lab, found)]


def _check_one(lab: Lab, submission: Submission, bench: Task) -> None:
    verified(submission.run.parent, METADATA, submission.checksum)
    run = stored_run(submission)
    folder, checksum = place_of_scores(lab, submission)
    try:
        kept = scores_from_json(json.loads(verified(folder, SCORES, checksum)))
    except ValueError as error:
        raise HarnessError(f"{folder / SCORES}: damaged: {error}") from None
    scores = replace(bench.scorer(run), run=submission.name)
    if json.dumps(scores_to_json(kept)) != json.dumps(scores_to_json(scores)):
        raise HarnessError(f"{folder / SCORES}: the run scores otherwise now; has the collection changed?")
    said = {name: None if math.isnan(mean) else mean for name, mean in submission.means.items()}
    if said != means(lab, scores):
        raise HarnessError(f"{submission.title}: the means in the journal are not those of its scores")


def _strangers(lab: Lab, found: Sequence[Submission]) -> Iterator[str]:
    """Folders of which the journal does not speak."""
    known = {each.folder for each in found}
    for root in (SUBMISSIONS, PRIVATE):
        for folder in sorted((lab.folder / root).glob("[!.]*/*")):
            if folder.relative_to(lab.folder / root).as_posix() not in known:
                yield f"{folder}: the journal does not speak of it"
