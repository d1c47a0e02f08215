"""What participants of a lab see of scores: noisy means, the ladder, means of the public topics only, and the end.

Every number that leaves a lab with private judgments comes from here; docs/private-judgments.md proves what one tells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io.files import read_bytes, sha256
from harness.labs.draw import drawn, largest, least_width, noise, seed_from
from harness.labs.folders import PRIVATE
from harness.labs.journal import FILE as JOURNAL
from harness.labs.journal import Committed, Event, PrimaryRunChosen, Revealed, Withdrawn
from harness.labs.lab import FILE as LAB
from harness.labs.lab import SEED, Lab
from harness.labs.submissions import Submission, from_events
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import load_protocol
from harness.scoring.scores import Scores

FINAL_DECIMALS = 2  # of the final means, which are shown once
UNTESTED = "one private judgment may decide whether a test is significant"


def width_of(lab: Lab, scores: Scores) -> float:
    """Returns the width of the noise of the means that participants see: the lab's, or more if few topics count.

    Topics of a cluster may share their judgments, so one judgment may change the scores of all of them.
    """
    first = scores.measures[0]
    shared = largest(scores.topics, load_collection(lab.collection).clusters())
    most = (parse_measure(first).sensitivity or 1.0) * shared
    return max(lab.noise, least_width(max(1, scores.n(first)), most))


def climbed(mean: float, best: float | None, width: float) -> float:
    """Returns the mean that the ladder of Blum and Hardt (ICML 2015) shows: `best`, unless exceeded by over the width.

    Two runs of equal exact means never differ by more than the width of their noise, so none climbs by noise alone.

    Parameters
    ----------
    best : mean shown of the team's best run so far; None before the first.

    Examples
    --------
    >>> climbed(0.43, None, 0.1), climbed(0.5, 0.43, 0.1), climbed(0.54, 0.43, 0.1)
    (0.43, 0.43, 0.54)
    """
    return mean if best is None or mean > best + width else best


def shown_means(
    lab: Lab, events: Sequence[Event], scores: Scores, team: str, digest: str, before: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Returns measure -> mean as participants may see it; None if no topic counts, or if it is not shown.

    With private judgments, the first measure's mean has noise, by judgments, team, run and measure; the others are
    shown at the end. Labs of earlier versions did not commit to noise, and show nothing of new submissions.

    Parameters
    ----------
    events : of the journal, which begins with the lab's commitment.
    scores : of the topics whose means are public; see `public_and_held_out`.
    digest : SHA-256 of the run's canonical text.
    before : means shown of the team's submission before, for labs with a ladder; empty for the first one.
    """
    means = {measure: scores.aggregate(measure) for measure in scores.measures}
    if not lab.private:
        return {measure: None if math.isnan(mean) else mean for measure, mean in means.items()}
    out: dict[str, float | None] = dict.fromkeys(means)
    first = scores.measures[0]
    if lab.feedback == "none" or math.isnan(means[first]) or not (key := verified_noise_key(lab, events)):
        return out
    width = width_of(lab, scores)
    mean = round(means[first] + width * noise(key, scores.qrels_sha256, team, digest, first), lab.decimals)
    out[first] = climbed(mean, before.get(first), width) if lab.ladder else mean
    return out


def shown_before(lab: Lab, submissions: Sequence[Submission], team: str) -> dict[str, float | None]:
    """Returns the means that the ladder shows of a team: those of its latest submission, as they never fall."""
    mine = [each.means for each in submissions if each.team == team] if lab.ladder else []
    return {name: None if math.isnan(mean) else mean for name, mean in mine[-1].items()} if mine else {}


def protection(lab: Lab, width: float) -> str:
    """Returns what is shown of private judgments before the end, in words; empty if the judgments are public."""
    if not lab.private:
        return ""
    if lab.feedback == "none":
        return "The judgments are private: no score is shown before the end."
    label, half = load_protocol(lab.protocol).label(lab.measures[0]), " over half of the topics" if lab.held_out else ""
    ladder = ", and are shown only if they exceed the team's best by more than that width" if lab.ladder else ""
    return (
        f"The judgments are private: until the end only means of {label}{half} are shown. They have uniform noise of "
        f"width {width:g} (\N{PLUS-MINUS SIGN}{width / 2:g}){ladder}. A submission raises the chance of guessing one "
        "chosen judgment from 0.5 to at most 0.55."
    )


def spent_budget(lab: Lab, sent: Sequence[Submission]) -> str:
    """Returns how much of the budget of submissions is spent, in words; empty if the judgments are public."""
    if not lab.private or lab.feedback == "none":
        return ""
    made = Counter(each.team for each in sent).values()  # a refund does not take back the mean that was shown
    return f"Budget spent: at most {max(made, default=0)} of {lab.cap} submissions by one team, {len(sent)} by all."


def concealed(scores: Scores, topics: Iterable[str], measures: Sequence[str]) -> Scores:
    """Returns scores without values, of all topics of the collection, which hide how many topics are judged."""
    listed = tuple(sorted(topics))
    nothing = np.full((len(listed), len(measures)), math.nan)
    return replace(scores, topics=listed, measures=tuple(measures), values=nothing, counts={}, missing=())


# ---- the key, and the end ----------------------------------------------------------------------------------------


def commitment(events: Sequence[Event]) -> Committed | None:
    """Returns the lab's commitment, which is its first event; None if it made none."""
    # A later commitment could be to a seed that was chosen by the runs.
    return next((each for each in events[:1] if isinstance(each, Committed)), None)


def _read_key(lab: Lab) -> str:
    path = lab.folder / PRIVATE / SEED
    return read_bytes(path, most=1 << 10).decode("utf-8", "replace").strip() if path.is_file() else ""


def verified_noise_key(lab: Lab, events: Sequence[Event]) -> str:
    """Returns the key of the noise, verified; empty if the lab is of an earlier version, which committed to none.

    Raises
    ------
    HarnessError
        As `stored_key`.
    """
    committed = commitment(events)
    if committed is None:
        return ""
    stored = stored_key(lab, events)
    return "" if sha256(stored.encode()) == committed.seed_sha256 else stored


def stored_key(lab: Lab, events: Sequence[Event]) -> str:
    """Returns the content of the file `SEED`: the key, or in labs of earlier versions the seed of held-out topics.

    Raises
    ------
    HarnessError
        It is missing, or not the one that the lab committed to.
    """
    committed, stored = commitment(events), _read_key(lab)
    if committed is None or committed.seed_sha256 not in (sha256(stored.encode()), sha256(seed_from(stored).encode())):
        raise _key_error(lab, committed)
    return stored


def seed_of(lab: Lab, events: Sequence[Event]) -> str:
    """Returns the seed of the held-out topics, verified against the commitment in the journal.

    Raises
    ------
    HarnessError
        The lab committed to no seed, the seed is not here, or it is not the one that the lab committed to.
    """
    committed = commitment(events)
    if committed is None:
        reason = "the first line of the journal has no seed's checksum"
        raise HarnessError(f"{lab.folder}: {reason}; create a lab with 'harness lab new --held-out'")
    revealed = next((each.seed for each in events if isinstance(each, Revealed)), "")
    if revealed and sha256(revealed.encode()) != committed.seed_sha256:
        reason = f"the revealed seed is not that of the commitment (SHA-256 {committed.seed_sha256})"
        raise HarnessError(f"{lab.folder / JOURNAL}: {reason}; restore the journal from a copy")
    stored = _read_key(lab)
    for seed in (revealed, seed_from(stored), stored):
        if seed and sha256(seed.encode()) == committed.seed_sha256:
            return seed
    raise _key_error(lab, committed)


def _key_error(lab: Lab, committed: Committed | None) -> HarnessError:
    path = lab.folder / PRIVATE / SEED
    if not path.is_file():
        return HarnessError(f"{path}: missing: only the organisers have it; restore it from a copy")
    return HarnessError(f"{path}: is not the key that the journal commits to; restore it from a copy")


def final_runs(lab: Lab, events: Sequence[Event]) -> tuple[Submission, ...]:
    """Returns the runs of the final ranking: the baseline and the teams' primary runs as of the reveal.

    What teams choose or withdraw afterwards makes no other run primary, since they know the final means then; a
    withdrawn run is left out. What organisers decide about disqualified runs counts at any time.

    Raises
    ------
    HarnessError
        The lab has not ended.
    """
    at = next((number for number, event in enumerate(events) if isinstance(event, Revealed)), None)
    if at is None:
        reason = "has not ended; end it with 'harness lab reveal'"
        raise HarnessError(f"{lab.folder}: {reason}")
    before = [*events[:at], *(event for event in events[at:] if not isinstance(event, PrimaryRunChosen | Withdrawn))]
    gone = {each.place for each in from_events(events, lab.folder) if each.withdrawn}
    current = (each for each in from_events(before, lab.folder) if each.current and each.place not in gone)
    return tuple(each for each in current if each.primary or each.name == lab.baseline)


def public_and_held_out(
    lab: Lab, events: Sequence[Event], topics: Iterable[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the public and the held-out ones of some topics; all are public in a lab without held-out topics.

    Raises
    ------
    HarnessError
        The lab committed to held-out topics and its settings have none, or the reverse; or `seed_of` raises.
    """
    listed = frozenset(topics)
    committed = commitment(events)
    if (committed is not None and committed.held_out) != lab.held_out:
        did = f"{'no ' if lab.held_out else ''}held-out topics, but key 'held_out' is{'' if lab.held_out else ' not'}"
        raise HarnessError(f"{lab.folder}: the lab committed to {did} true; restore it in {LAB}")
    if not lab.held_out:
        return listed, frozenset()
    with lab.guarded():
        clusters = load_collection(lab.collection).clusters()
    seed = seed_of(lab, events)
    public = drawn(seed, listed, clusters)
    return public, listed - public
