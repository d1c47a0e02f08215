"""Actions of teams in a lab: submit a run, withdraw it, choose the primary run."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from harness.collections.load import load_collection
from harness.data.trec import Run, parse_run, read_run, run_bytes
from harness.errors import HarnessError, counted_text, gather, refuse, shortened, suggestion
from harness.experiments.task import Task
from harness.labs.closing import changed, has_ended, refuse_if_frozen
from harness.labs.journal import (
    KINDS,
    NAME_RULE,
    Event,
    Journal,
    Kind,
    PrimaryRunChosen,
    Refused,
    Submitted,
    Withdrawn,
    is_name,
    label_of_tag,
)
from harness.labs.lab import Lab, new_lab, others_may_read
from harness.labs.names import confusable, mentions, nfc, normalised_reason, stamp
from harness.labs.roster import BASELINE, allowance, has_roster, hidden_names
from harness.labs.roster import fault as roster_fault
from harness.labs.shown_scores import protection, public_and_held_out, shown_before, shown_means, width_of
from harness.labs.standing import (
    CategoryScore,
    SubmissionStanding,
    ranked_beside,
    refuse_if_changed,
    scores_by_category,
    standing,
)
from harness.labs.submission_storage import (
    Details,
    clear,
    commit,
    files_of,
    metadata_beside,
    metadata_text,
    ranks_judged_alone,
    staged,
)
from harness.labs.submissions import Submission, find_submission, from_events, normal, refuse_if_rejudged, scores_of
from harness.scoring.coverage import not_judged
from harness.scoring.scores import Scores
from harness.version import __version__

LONGEST_TEXT = 2_000  # characters of a description
LONGEST_ADDRESS = 500
_ADDRESS = re.compile(r"https?://[^\s/?#]+\.[^\s/?#]+(/\S*)?|https?://[^\s/?#]+\.[^\s/?#]+[?#]\S*")


@dataclass(frozen=True)
class Offer:
    """A run offered by a team, unchecked.

    Attributes
    ----------
    run : a run file, or a folder or archive of TIRA.
    team : its name, which the caller has verified if the lab has a roster; see `roster.team_of`.
    label : None for the tag of the run.
    code : address of the code that made the run.
    external_data : description of data used besides the collection.
    primary : whether it becomes the team's primary run.
    format : layout of the file; None to detect it.
    """

    run: Path
    team: str
    label: str | None = None
    description: str | None = None
    kind: str = "automatic"
    code: str | None = None
    external_data: str | None = None
    primary: bool = False
    format: str | None = None


class OfferError(HarnessError):
    """A run is refused for what its team has offered or when; any other error is no fault of the team."""


@dataclass(frozen=True)
class Receipt:
    """Result of a submission.

    Attributes
    ----------
    made : number of submissions of the team so far, without refunded ones.
    standing : rank and comparisons; None if they could not be computed, or if no score is shown.
    notes : remarks for the team, one line each.
    protection : what is shown of private judgments; empty if they are public.
    counted : number of topics that count, for each of the lab's measures; empty if the judgments are private, as it
        would reveal which topics are judged.
    missing : number of judged topics that the run does not answer.
    refunded : number of refunded submissions of the team.
    categories : scores by category of topics by the first measure, if the judgments are public and participants see
        scores per topic.
    compared : number of other ranked runs that `categories` compares with.
    """

    submission: Submission
    made: int
    standing: SubmissionStanding | None
    notes: tuple[str, ...]
    protection: str = ""
    counted: tuple[int, ...] = ()
    missing: int = 0
    refunded: int = 0
    categories: tuple[CategoryScore, ...] = ()
    compared: int = 0


def submit_run(lab: Lab, offer: Offer, *, bench: Task | None = None, now: datetime | None = None) -> Receipt:
    """Checks, scores and stores a run atomically.

    Parameters
    ----------
    bench : the lab's task, if already loaded.
    now : time of submission; default: now.

    Raises
    ------
    OfferError
        The submission is refused: one line per fault.
    HarnessError
        It cannot be scored or stored: the lab is frozen or was re-judged, its files cannot be read or written.

    Examples
    --------
    >>> from harness.labs.lab import new_lab
    >>> lab = new_lab(Path("labs/arena"), {"title": "Arena", "collection": "mini-task1"})
    >>> found = submit_run(lab, Offer(Path("runs/mini/mini-task1/overlap.run"), "DPRL", "first"))
    >>> found.submission.name, found.submission.primary, found.standing.rank
    ('DPRL / first', True, 1)
    """
    now = now or datetime.now(UTC)
    faults: list[str] = []
    notes: list[str] = []
    if wrong := others_may_read(lab):
        raise HarnessError(wrong)
    read = None
    journal = Journal(lab.folder)
    journal.catch_up()
    refuse_if_frozen(lab, journal.events)  # before the file is read, which may count as an invalid one
    refuse_if_rejudged(lab, journal.events)
    _check_invalid(lab, journal.events, nfc(offer.team))
    known, topics = _topics(lab)
    sent = offer.run.is_file() or offer.run.is_dir()
    with gather(faults):
        read = _read(lab, offer, known, topics)
    if read is None and sent:
        _count_invalid(lab, journal, nfc(offer.team), now)
    details = _details(lab, offer, read, faults)
    kept = None if read is None else normal(read, details.name)
    submissions = from_events(journal.events, lab.folder)
    faults += _refusals(lab, details, offer, kept and kept[0].sha256, submissions, journal.events, now)
    if read is None or kept is None or faults:
        raise OfferError(*dict.fromkeys(faults))
    run, text = kept
    notes += [str(warning) for warning in read.warnings]
    if offer.label is None and details.label != nfc(read.name):
        notes.append(f"tag {read.name!r} is no label: kept as {details.label!r}; choose a label with --label")
    with lab.guarded():
        bench = bench or lab.task()
        judged = set(bench.scorer.qrels.topics)
    if not lab.private and not judged & set(run.topics):  # else the refusal would tell which topics are judged
        raise OfferError(f"{offer.run}: answers none of the judged topics")
    with lab.guarded():
        scores = bench.scorer(run)
    refuse_if_changed(lab, scores, submissions)
    notes += [] if lab.private else _coverage(bench, run, scores)
    made, note = metadata_beside(offer.run, read)
    notes += [note] if note else []
    public, _ = public_and_held_out(lab, journal.events, scores.topics)
    meta = metadata_text(lab, details, run, made)
    while True:
        before = shown_before(lab, submissions, details.team)
        means = shown_means(lab, journal.events, scores.select(public), details.team, run.sha256, before)
        files = files_of(lab, details, text, meta, scores, means)
        with staged(lab, files) as folder, journal.locked():
            clear(lab, journal)
            refuse_if_frozen(lab, journal.events)
            refuse_if_rejudged(lab, journal.events)
            submissions = from_events(journal.events, lab.folder)
            if faults := _refusals(lab, details, offer, run.sha256, submissions, journal.events, now):
                raise OfferError(*dict.fromkeys(faults))
            if shown_before(lab, submissions, details.team) != before:
                continue  # another run of the team came first, and the ladder shows other means
            version = 1 + sum((each.team, each.label) == (details.team, details.label) for each in submissions)
            event = Submitted(
                **vars(details),
                version=version,
                sha256=run.sha256,
                checksum=files.checksum,
                means=means,
                answered=len(run.topics),
                primary=offer.primary,
                harness=f"mathir-harness {__version__}",
                at=stamp(now),
            )
            commit(lab, journal, folder, event)
            submissions = from_events(journal.events, lab.folder)
            break
    submission = next(each for each in submissions if (each.name, each.version) == (details.name, version))
    if version > 1:
        notes.append(f"replaces version {version - 1} of {details.label}; --label NAME submits a run of its own")
    said = protection(lab, width_of(lab, scores.select(public))) if lab.private else ""
    return _receipt(lab, submission, scores, bench, submissions, notes, said)


def _coverage(bench: Task, run: Run, scores: Scores) -> list[str]:
    """Returns notes on unanswered topics and unjudged results, which would reveal private judgments."""
    judged = len(set(bench.scorer.qrels.topics))
    notes = [f"answers {judged - len(scores.missing)} of {judged} topics"] if scores.missing else []
    remark = not_judged(bench.scorer, run, scores)
    return [*notes, f"{run.name}: {remark}"] if remark else notes


def _receipt(
    lab: Lab,
    submission: Submission,
    scores: Scores,
    bench: Task,
    submissions: Sequence[Submission],
    notes: Sequence[str],
    said: str,
) -> Receipt:
    """Returns the receipt of a stored submission; `said` : what is shown of private judgments."""
    where = None
    try:
        if not lab.private or not math.isnan(submission.means[lab.measures[0]]):
            where = standing(lab, submission, scores, bench, submissions)
    except HarnessError as error:  # the submission counts nevertheless
        notes = [*notes, *(f"not compared: {line}" for line in error.lines)]
    mine = [each for each in submissions if each.team == submission.team]
    made = sum(not each.refunded for each in mine)
    if lab.private:
        return Receipt(submission, made, where, tuple(notes), said, refunded=len(mine) - made)
    counted = tuple(scores.n(measure) for measure in lab.measures)
    receipt = Receipt(submission, made, where, tuple(notes), counted=counted, missing=len(scores.missing))
    if not lab.per_topic:  # the mean of a category of one topic is the score of that topic
        return receipt
    others: list[Scores] = []
    for each in ranked_beside(lab, submission, submissions):
        with suppress(HarnessError):  # damaged files of other teams; the receipt says how many runs were read
            others.append(scores_of(lab, each))
    known = bench.topics.by_id()
    categories = scores_by_category(scores, lab.measures[0], others, known)
    return replace(receipt, categories=categories, compared=len(others))


def _check_invalid(lab: Lab, events: Sequence[Event], team: str) -> None:
    """Raises OfferError if a team has sent the maximum number of invalid files."""
    sent = sum(isinstance(event, Refused) and event.team == team for event in events)
    if lab.invalid_cap is not None and sent >= lab.invalid_cap:
        raise OfferError(f"team {team}: has sent {sent} of {lab.invalid_cap} invalid files; ask the organisers")


def _count_invalid(lab: Lab, journal: Journal, team: str, now: datetime) -> None:
    """Records an invalid file of a team on the roster, if the lab counts them."""
    known = has_roster(lab, journal.events) and not roster_fault(lab, journal.events, team)
    if lab.invalid_cap is not None and known and team != BASELINE:
        with journal.locked():
            journal.append(Refused(team, stamp(now)))


def withdraw_run(
    lab: Lab, team: str, label: str, version: int | None = None, reason: str = "", *, now: datetime | None = None
) -> Submission:
    """Withdraws a version of a run, by default the latest; journal and folder keep it.

    Raises
    ------
    HarnessError
        The version does not exist or was withdrawn before, the lab is frozen, or the reason is too long or unprintable.
    """
    if reason and not reason.strip():
        raise HarnessError("reason: is empty; give a sentence, or omit the option")
    reason = normalised_reason(reason)
    with changed(lab, by_team=True) as journal:
        chosen = find_submission(from_events(journal.events, lab.folder), nfc(team), nfc(label), version)
        if chosen.withdrawn:
            raise HarnessError(f"{chosen.title} was withdrawn already")
        journal.append(Withdrawn(chosen.team, chosen.label, chosen.version, reason, stamp(now)))
        return from_events(journal.events, lab.folder)[chosen.place]


def choose_primary(lab: Lab, team: str, label: str, *, now: datetime | None = None) -> Submission:
    """Makes the latest version of a team's run its primary run.

    Raises
    ------
    HarnessError
        The run does not exist, was withdrawn, or is post-hoc; the lab is frozen; or the lab has ended.
    """
    with changed(lab, by_team=True) as journal:
        if has_ended(journal.events):
            # The team could choose the run that is best at the end.
            raise HarnessError("the lab has ended; primary runs can no longer be chosen")
        chosen = find_submission(from_events(journal.events, lab.folder), nfc(team), nfc(label))
        if chosen.kind == "post-hoc":
            raise HarnessError(f"{chosen.name}: {_NOT_PRIMARY}")
        journal.append(PrimaryRunChosen(chosen.team, chosen.label, stamp(now)))
        return from_events(journal.events, lab.folder)[chosen.place]


_NOT_PRIMARY = "a post-hoc run cannot be a team's primary run"


def _topics(lab: Lab) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Returns the topics that runs may answer, None if unknown, and those that private runs should answer."""
    with lab.guarded():
        collection = load_collection(lab.collection)
        return collection.known_topics(), collection.topics().ids() if lab.private else frozenset()


def _read(lab: Lab, offer: Offer, known: frozenset[str] | None, topics: frozenset[str]) -> Run:
    """Reads the offered run and checks it against the limits of the lab; the topics are those of `_topics`."""
    data = run_bytes(offer.run, most=lab.most_bytes)
    # A label replaces the tag, which then may have any form.
    name = None if offer.label is None else "run"
    run = parse_run(data, str(offer.run), name=name, format=offer.format, known_topics=known)
    _check_results(lab, run)
    if lab.private and 2 * len(topics.intersection(run.topics)) < len(topics):
        # The mean of a run with few topics would reveal their scores, and whether they are judged.
        some = f"answers {len(topics.intersection(run.topics))} of {len(topics)} topics"
        raise HarnessError(f"{offer.run}: {some}; with private judgments, a run must answer at least half of them")
    if lab.private and ranks_judged_alone(offer.run, run):
        # The run is public and would reveal the ids of judged documents.
        raise HarnessError(
            f"{offer.run}: its metadata file says that it ranks judged documents only, but the judgments are private"
        )
    return run


def _check_results(lab: Lab, run: Run) -> None:
    """Raises HarnessError if a topic has more or fewer results than the lab allows."""
    counts = np.bincount(run.topic, minlength=len(run.topics)).tolist()
    faults = []
    for word, limit in (("most", lab.results or math.inf), ("least", lab.least_results)):
        wrong = [at for at, count in enumerate(counts) if (count > limit if word == "most" else count < limit)]
        if wrong:
            first = counts[wrong[0]]
            many = f" ({len(wrong)} such topics)" if len(wrong) > 1 else ""
            problem = f"has {counted_text(first, 'result')}, expected at {word} {limit:,}{many}"
            faults.append(f"{run.source}: topic {run.topics[wrong[0]]!r} {problem}")
    refuse(faults)


def _details(lab: Lab, offer: Offer, run: Run | None, faults: list[str]) -> Details:
    """Checks the details of an offer and appends their faults; without a readable run, the label may be unknown."""
    given = offer.label if offer.label is not None else label_of_tag(run.name) if run is not None else "unknown"
    team, label = nfc(offer.team), nfc(given)
    if not is_name(team):
        faults.append(
            f"team {team!r}: expected {NAME_RULE}" if team.strip() else "team: is empty; expected the name of the team"
        )
    if not is_name(label):
        faults.append(f"label {label!r}: expected {NAME_RULE}" if label.strip() else "label: is empty")
    if offer.kind not in KINDS:
        faults.append(f"kind {offer.kind!r} is unknown; {suggestion(offer.kind, KINDS)}")
    texts = {
        "description": _checked_words("description", offer.description, faults),
        "code": _checked_address(offer.code, faults),
        "external_data": _checked_words("external data", offer.external_data, faults),
    }
    for key in lab.require:
        if getattr(offer, key) is None:
            faults.append(f"{key.replace('_', ' ')}: is missing, but this lab requires it (--{key.replace('_', '-')})")
    return Details(team, label, cast(Kind, offer.kind), **texts)


def _checked_words(field: str, given: str | None, faults: list[str]) -> str:
    """Normalises a text to one line and appends its faults."""
    text = " ".join(nfc(given or "").split())
    if given is not None and not text:
        faults.append(f"{field}: is empty; give a sentence, or omit the option")
    if len(text) > LONGEST_TEXT:
        faults.append(f"{field}: has {len(text):,} characters, expected at most {LONGEST_TEXT:,}")
    if not text.isprintable():
        faults.append(f"{field}: {shortened(text, 80)!r} contains unprintable characters")
    return text


def _checked_address(given: str | None, faults: list[str]) -> str:
    if given is None:
        return ""
    if not (_ADDRESS.fullmatch(given) and given.isprintable() and len(given) <= LONGEST_ADDRESS):
        expected = f"expected an address such as https://example.org/code, at most {LONGEST_ADDRESS} characters"
        faults.append(f"code: {shortened(given, 80)!r}: {expected}")
    return given


def _refusals(
    lab: Lab,
    details: Details,
    offer: Offer,
    digest: str | None,
    submissions: Sequence[Submission],
    events: Sequence[Event],
    now: datetime,
) -> list[str]:
    """Returns the faults of a submission with regard to roster, earlier submissions, deadline and caps."""
    faults = [wrong] if (wrong := roster_fault(lab, events, details.team)) else []
    if details.kind != "post-hoc" and has_ended(events):
        faults.append("the lab has ended; submit later runs with --kind post-hoc")
    mine = [each for each in submissions if each.team == details.team]
    for what, given, others, whose, choose in (
        ("team", details.team, {each.team for each in submissions}, "existing team", "name"),
        ("label", details.label, {each.label for each in mine}, "team's run", "label"),
    ):
        for known in others - {given}:
            if alike := confusable(given, known):
                hint = f"use its spelling, or choose another {choose}"
                faults.append(f"{what} {alike[0]}: resembles the {whose} {alike[1]}; {hint}")
    real = hidden_names(lab, now).get(details.team, "")
    if real and mentions(details.label, real):
        faults.append(f"label {details.label!r}: names the team, which has a pseudonym; choose another label (--label)")
    if lab.deadline is not None and now > lab.deadline and details.kind != "post-hoc":
        local = now.astimezone(lab.deadline.tzinfo)
        over = f"the deadline was {lab.deadline.isoformat()}, the time is {local.isoformat(timespec='seconds')}"
        faults.append(f"{over}; submit later runs with --kind post-hoc")
    if offer.primary and details.kind == "post-hoc":
        faults.append(f"primary: {_NOT_PRIMARY}")
    same = [each for each in mine if each.label == details.label]
    if other := [each for each in same if (each.kind == "post-hoc") != (details.kind == "post-hoc")]:
        kinds = f"version {other[-1].version} is {other[-1].kind}, this one {details.kind}"
        faults.append(f"label {details.label!r}: {kinds}; give post-hoc runs their own label")
    faults += allowance(lab, submissions, events, details.team, now).faults(details.team)
    for each in submissions:
        if each.sha256 == digest and (each.disqualified or not each.withdrawn):
            own = each.team == details.team
            whose = f"as {each.title} on {each.submitted}" if own or not lab.private else "by another team"
            faults.append(f"{offer.run}: the same rankings were submitted before {whose}; nothing was stored")
    return faults


def open_lab(folder: Path, settings: dict[str, Any], baseline: Path | None = None, label: str | None = None) -> Lab:
    """Creates a lab atomically, optionally with a baseline run; see `harness.labs.lab.new_lab`.

    The team `baseline` submits the baseline under a label, by default its tag.

    Examples
    --------
    >>> runs = Path("runs/mini/mini-task1")
    >>> open_lab(Path("labs/based"), {"title": "Based", "collection": "mini-task1"}, runs / "shuffle.run").baseline
    'baseline / shuffle'
    """
    if baseline is None:
        return new_lab(folder, settings)
    name = f"{BASELINE} / {nfc(label) if label else label_of_tag(read_run(baseline).name)}"
    lab = new_lab(folder, {**settings, "baseline": name})
    offer = Offer(baseline, BASELINE, label, description="Baseline of the lab.")
    try:
        submit_run(replace(lab, require=(), deadline=None, least_results=1), offer)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return lab
