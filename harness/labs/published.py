"""What participants of a lab see of scores: means rounded to a step, the ladder, and means of the public topics only.

Every number that leaves a lab with private judgments comes from here; docs/private-judgments.md derives the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io.files import read_bytes, sha256
from harness.labs.draw import drawn
from harness.labs.folders import PRIVATE
from harness.labs.journal import FILE as JOURNAL
from harness.labs.journal import Chosen, Committed, Event, Revealed, Withdrawn
from harness.labs.lab import FILE as LAB
from harness.labs.lab import SEED, Lab
from harness.labs.submissions import Submission, from_events
from harness.scoring.rounding import least_step, rounded
from harness.scoring.scores import Scores

FINAL_DECIMALS = 2  # of the final means on held-out topics, which are shown once


def step_of(lab: Lab, scores: Scores) -> float:
    """Returns the step of the means that participants see: the lab's, or a larger one if few topics count."""
    return max(lab.step, least_step(min(scores.n(measure) for measure in scores.measures)))


def told(means: Mapping[str, float], step: float, best: Mapping[str, float] | None = None) -> dict[str, float | None]:
    """Returns measure -> mean rounded to the step; None if no topic counts.

    Parameters
    ----------
    best : measure -> mean shown of the team's best run so far, for the ladder of Blum and Hardt (ICML 2015): a mean
        that does not exceed it by more than the step is not shown, `best` is. Empty before the first submission; None
        without a ladder.

    Examples
    --------
    >>> told({"nDCG": 0.43}, 0.05), told({"nDCG": 0.43}, 0.05, {"nDCG": 0.4}), told({"nDCG": 0.47}, 0.05, {"nDCG": 0.4})
    ({'nDCG': 0.45}, {'nDCG': 0.4}, {'nDCG': 0.45})
    """
    out: dict[str, float | None] = {}
    for measure, mean in means.items():
        before = (best or {}).get(measure, math.nan)
        climbs = best is None or math.isnan(before) or mean > before + step
        out[measure] = None if math.isnan(mean) else rounded(mean, step) if climbs else before
    return out


def shown_means(lab: Lab, scores: Scores, best: Mapping[str, float] | None = None) -> dict[str, float | None]:
    """Returns measure -> mean as participants may see it; None if no topic counts.

    Parameters
    ----------
    scores : of the topics whose means are public; see `halves`.
    best : for labs with a ladder, as for `told`.
    """
    means = {measure: scores.aggregate(measure) for measure in scores.measures}
    if not lab.private:
        return {measure: None if math.isnan(mean) else mean for measure, mean in means.items()}
    return told(means, step_of(lab, scores), (best or {}) if lab.ladder else None)


# ---- held-out topics ---------------------------------------------------------------------------------------------


def commitment(events: Sequence[Event]) -> str:
    """Returns the SHA-256 of the seed that the lab committed to in its first event; empty if it did not."""
    # A later commitment could be to a seed that was chosen by the runs.
    return next((each.seed_sha256 for each in events[:1] if isinstance(each, Committed)), "")


def seed_of(lab: Lab, events: Sequence[Event]) -> str:
    """Returns the seed of the held-out topics, verified against the commitment in the journal.

    Raises
    ------
    HarnessError
        The lab has no held-out topics, the seed is not here, or it is not the one that the lab committed to.
    """
    if not lab.held_out:
        raise HarnessError(f"{lab.folder}: has no held-out topics; create a lab with 'harness lab new --held-out'")
    committed = commitment(events)
    if not committed:
        reason = "key 'held_out' is true, but the first line of the journal has no seed's checksum"
        raise HarnessError(f"{lab.folder}: {reason}; create the lab with 'harness lab new --held-out'")
    seed = next((each.seed for each in events if isinstance(each, Revealed)), "")
    path = lab.folder / PRIVATE / SEED
    if seed and sha256(seed.encode()) != committed:
        reason = f"the revealed seed is not that of the commitment (SHA-256 {committed})"
        raise HarnessError(f"{lab.folder / JOURNAL}: {reason}; restore the journal from a copy")
    if not seed:
        if not path.is_file():
            raise HarnessError(f"{path}: missing: only the organisers have the seed until they reveal it")
        seed = read_bytes(path, most=1 << 10).decode("utf-8", "replace").strip()
    if sha256(seed.encode()) != committed:
        raise HarnessError(f"{path}: is not the seed whose SHA-256 the journal has ({committed}); restore it")
    return seed


def final_runs(lab: Lab, events: Sequence[Event]) -> tuple[Submission, ...]:
    """Returns the runs of the final ranking: the baseline and the teams' primary runs as of the reveal.

    What teams choose or withdraw afterwards makes no other run primary, since they know the held-out means then; a
    withdrawn run is left out. What organisers decide about disqualified runs counts at any time.

    Raises
    ------
    HarnessError
        The held-out topics are not revealed.
    """
    at = next((number for number, event in enumerate(events) if isinstance(event, Revealed)), None)
    if at is None:
        reason = "the held-out topics are not revealed; reveal them with 'harness lab reveal'"
        raise HarnessError(f"{lab.folder}: {reason}")
    before = [*events[:at], *(event for event in events[at:] if not isinstance(event, Chosen | Withdrawn))]
    gone = {each.place for each in from_events(events, lab.folder) if each.withdrawn}
    found = from_events(before, lab.folder)
    return tuple(
        each
        for each in found
        if each.current and (each.primary or each.name == lab.baseline) and each.place not in gone
    )


def halves(lab: Lab, events: Sequence[Event], topics: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the public and the held-out ones of some topics; all are public in a lab without held-out topics.

    Raises
    ------
    HarnessError
        The lab committed to held-out topics and its settings have none, or `seed_of` raises.
    """
    listed = frozenset(topics)
    if not lab.held_out:
        if commitment(events):
            reason = "the lab committed to held-out topics, but key 'held_out' is not true"
            raise HarnessError(f"{lab.folder}: {reason}; restore it in {LAB}")
        return listed, frozenset()
    with lab.guarded():
        clusters = load_collection(lab.collection).clusters()
    seed = seed_of(lab, events)
    found = drawn(seed, listed, clusters)
    return found, listed - found
