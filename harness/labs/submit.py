"""What teams do in a lab: submit a run, withdraw it, choose their primary one."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from harness.collections.load import load_collection
from harness.data.trec import Run, parse_run, read_run
from harness.errors import HarnessError, gather, refuse, shortened, suggestion
from harness.experiments.task import Task
from harness.io.files import read_bytes
from harness.labs import metadata
from harness.labs.form import normal
from harness.labs.journal import KINDS, NAME_RULE, Chosen, Journal, Kind, Submitted, Withdrawn, is_name
from harness.labs.lab import Lab, new_lab, others_may_read
from harness.labs.metadata import Said
from harness.labs.standing import Standing, refuse_if_changed, standing
from harness.labs.storing import aside, clear, commit, files_of, means
from harness.labs.submissions import Submission, find, from_events
from harness.version import __version__

LONGEST_TEXT = 2_000  # characters of a description, of what is said of external data
LONGEST_ADDRESS = 500
BASELINE = "baseline"  # the team of the run that a lab begins with
_ADDRESS = re.compile(r"https?://[^\s/?#]+\.[^\s/?#]+(/\S*)?|https?://[^\s/?#]+\.[^\s/?#]+[?#]\S*")


@dataclass(frozen=True)
class Offer:
    """A run as its team brings it, unchecked.

    Attributes
    ----------
    label : default: the tag of the run.
    code : the address of the code that made it.
    external_data : what it was made from besides the collection, in words.
    primary : it is to be the team's primary run.
    format : the layout of its file; default: recognised.
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


@dataclass(frozen=True)
class Receipt:
    """What came of a submission: where it stands, unless that could not be found out, and remarks, a line each."""

    submission: Submission
    made: int
    standing: Standing | None
    notes: tuple[str, ...]


def submit(lab: Lab, offer: Offer, *, bench: Task | None = None, now: datetime | None = None) -> Receipt:
    """Check, score and keep a run; all of it is kept or nothing.

    Parameters
    ----------
    bench : the lab's task, if it is at hand.
    now : when it was submitted; default: the present.

    Raises
    ------
    HarnessError
        All faults of the submission, a line each.

    Examples
    --------
    >>> from harness.labs.lab import new_lab
    >>> lab = new_lab(Path("labs/arena"), {"title": "Arena", "collection": "mini-task1"})
    >>> found = submit(lab, Offer(Path("runs/mini/mini-task1/overlap.run"), "DPRL", "first"))
    >>> found.submission.name, found.submission.primary, found.standing.rank
    ('DPRL / first', True, 1)
    """
    now = now or datetime.now(UTC)
    faults: list[str] = []
    notes: list[str] = []
    if wrong := others_may_read(lab):
        faults.append(wrong)
    read = None
    with gather(faults):
        read = _read(lab, offer)
    said = _said(lab, offer, read, faults)
    journal = Journal(lab.folder)
    journal.catch_up()
    kept = None if read is None else normal(read, said.name)
    found = from_events(journal.events, lab.folder)
    faults += _standing_faults(lab, said, offer, kept and kept[0].sha256, found, now)
    if read is None or kept is None or faults:
        raise HarnessError(*dict.fromkeys(faults))
    run, text = kept
    notes += [str(warning) for warning in read.warnings]
    with lab.guarded():
        bench = bench or lab.task()
        judged = set(bench.scorer.qrels.topics)
    if not judged & set(run.topics):
        raise HarnessError(f"{offer.run}: answers none of the topics that are judged")
    with lab.guarded():
        scores = bench.scorer(run)
    refuse_if_changed(lab, scores, found)
    if scores.missing and not lab.private:
        notes.append(f"answers {len(judged) - len(scores.missing)} of {len(judged)} topics")
    made, note = metadata.beside(offer.run, read)
    notes += [note] if note else []
    files = files_of(lab, said, text, metadata.text(lab, said, run, made), scores)
    with aside(lab, files) as folder, journal.locked():
        clear(lab, journal)
        found = from_events(journal.events, lab.folder)
        refuse(_standing_faults(lab, said, offer, run.sha256, found, now))
        version = 1 + sum((each.team, each.label) == (said.team, said.label) for each in found)
        event = Submitted(
            said.team,
            said.label,
            version,
            said.kind,
            said.description,
            said.code,
            said.external_data,
            run.sha256,
            files.checksum,
            means(lab, scores),
            len(run.topics),
            offer.primary,
            f"mathir-harness {__version__}",
            _stamp(now),
        )
        commit(lab, journal, folder, event)
        found = from_events(journal.events, lab.folder)
    submission = next(each for each in found if (each.name, each.version) == (said.name, version))
    where = None
    try:
        where = standing(lab, submission, scores, bench, found)
    except HarnessError as error:  # it is kept all the same
        notes += [f"not compared: {line}" for line in error.lines]
    return Receipt(submission, sum(each.team == said.team for each in found), where, tuple(notes))


def withdraw(
    lab: Lab, team: str, label: str, version: int | None = None, reason: str = "", *, now: datetime | None = None
) -> Submission:
    """Withdraw a version, or the latest one, of a run; it stays in the journal and in its folder.

    Raises
    ------
    HarnessError
        There is none, it is withdrawn already, or the reason cannot be kept.
    """
    faults: list[str] = []
    reason = _words("reason", reason, faults)
    refuse(faults)
    journal = Journal(lab.folder)
    with journal.locked():
        clear(lab, journal)
        chosen = find(from_events(journal.events, lab.folder), _nfc(team), _nfc(label), version)
        if chosen.withdrawn:
            raise HarnessError(f"{chosen.title} is withdrawn already")
        journal.append(Withdrawn(chosen.team, chosen.label, chosen.version, reason, _stamp(now or datetime.now(UTC))))
        return from_events(journal.events, lab.folder)[chosen.place]


def choose_primary(lab: Lab, team: str, label: str, *, now: datetime | None = None) -> Submission:
    """Make a team's run its primary one, in its latest version.

    Raises
    ------
    HarnessError
        There is no such run, it is withdrawn, or it is post-hoc.
    """
    journal = Journal(lab.folder)
    with journal.locked():
        clear(lab, journal)
        chosen = find(from_events(journal.events, lab.folder), _nfc(team), _nfc(label))
        if chosen.kind == "post-hoc":
            raise HarnessError(f"{chosen.name}: {_NOT_PRIMARY}")
        journal.append(Chosen(chosen.team, chosen.label, _stamp(now or datetime.now(UTC))))
        return from_events(journal.events, lab.folder)[chosen.place]


_NOT_PRIMARY = "a post-hoc run cannot be a team's primary run"


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="seconds")


def _nfc(name: str) -> str:
    """A name in the one spelling of its letters."""
    return unicodedata.normalize("NFC", name)


def _read(lab: Lab, offer: Offer) -> Run:
    """The run as its file has it."""
    with lab.guarded():
        collection = load_collection(lab.collection)
        known = collection.known_topics()
        topics = collection.topics().ids() if lab.private else frozenset()
    data = read_bytes(offer.run, most=lab.most_bytes)
    # A label stands in for the tag, which need not fit then.
    name = None if offer.label is None else "run"
    run = parse_run(data, str(offer.run), name=name, format=offer.format, known_topics=known)
    if lab.results is not None:
        _check_results(lab.results, run)
    if lab.private and 2 * len(topics.intersection(run.topics)) < len(topics):
        # The mean of a run of few topics would tell their values, and whether they are judged at all.
        some = f"answers {len(topics.intersection(run.topics))} of {len(topics)} topics"
        raise HarnessError(f"{offer.run}: {some}; where judgments are private, a run must answer half of them")
    if lab.private and metadata.of_judged_alone(offer.run, run):
        # All may read the run, and with it the ids of what is judged.
        raise HarnessError(
            f"{offer.run}: ranks the judged documents alone, by its side file; the judgments are private"
        )
    return run


def _check_results(most: int, run: Run) -> None:
    counts = [0] * len(run.topics)
    for topic in run.topic.tolist():
        counts[topic] += 1
    if deep := [topic for topic, count in zip(run.topics, counts, strict=True) if count > most]:
        many = f" ({len(deep)} such topics)" if len(deep) > 1 else ""
        raise HarnessError(f"{run.source}: topic {deep[0]!r} has {max(counts):,} results, at most {most:,}{many}")


def _said(lab: Lab, offer: Offer, run: Run | None, faults: list[str]) -> Said:
    """What a team says, with its faults; of a run that cannot be read, the label may be missing."""
    given = offer.label if offer.label is not None else run.name if run is not None else "unknown"
    team, label = _nfc(offer.team), _nfc(given)
    if not is_name(team):
        faults.append(f"team {team!r}: expected {NAME_RULE}" if team.strip() else "team: is empty; say whose run it is")
    if not is_name(label):
        tag = " (the run's tag; --label gives it another one)" if offer.label is None else ""
        faults.append(f"label {label!r}{tag}: expected {NAME_RULE}" if label.strip() else "label: is empty")
    if offer.kind not in KINDS:
        faults.append(f"kind {offer.kind!r} is unknown; {suggestion(offer.kind, KINDS)}")
    said = {
        "description": _words("description", offer.description, faults),
        "code": _address(offer.code, faults),
        "external_data": _words("external data", offer.external_data, faults),
    }
    for key in lab.require:
        if getattr(offer, key) is None:
            faults.append(f"{key.replace('_', ' ')}: is missing; this lab asks for it (--{key.replace('_', '-')})")
    return Said(team, label, cast(Kind, offer.kind), **said)


def _words(what: str, given: str | None, faults: list[str]) -> str:
    """Text of a few sentences on one line."""
    text = " ".join(_nfc(given or "").split())
    if (given and not text) or (given == "" and what != "reason"):
        faults.append(f"{what}: is empty; say it in a sentence, or leave it out")
    if len(text) > LONGEST_TEXT:
        faults.append(f"{what}: has {len(text):,} characters, at most {LONGEST_TEXT:,}")
    if not text.isprintable():
        faults.append(f"{what}: {shortened(text, 80)!r} holds characters that cannot be printed")
    return text


def _address(given: str | None, faults: list[str]) -> str:
    if given is None:
        return ""
    if not (_ADDRESS.fullmatch(given) and given.isprintable() and len(given) <= LONGEST_ADDRESS):
        expected = f"expected an address such as https://example.org/code, at most {LONGEST_ADDRESS} characters"
        faults.append(f"code: {shortened(given, 80)!r}: {expected}")
    return given


# Greek and Cyrillic letters whose small or capital form is that of a Latin one.
_LATIN = str.maketrans("αβεζηικμνορτυχавеѕіјкмнорстухһԁԛԝ", "abezhikmnoptyxabesijkmhopctyxhdqw")


def _alike(one: str, other: str) -> tuple[str, str] | None:
    """Two names, as messages show them, that people would take for one; None if they would not."""
    if one.casefold() == other.casefold():
        return repr(one), repr(other)
    first, second = (unicodedata.normalize("NFKC", name).casefold().translate(_LATIN) for name in (one, other))
    return (ascii(one), ascii(other)) if first == second else None  # on a page they look the same


def _standing_faults(
    lab: Lab, said: Said, offer: Offer, digest: str | None, found: Sequence[Submission], now: datetime
) -> list[str]:
    """What speaks against a submission where others were made before it."""
    faults = []
    for team in {each.team for each in found} - {said.team}:
        if alike := _alike(said.team, team):
            faults.append(
                f"team {alike[0]}: there is a team {alike[1]} already; spell it alike, or choose another name"
            )
    mine = [each for each in found if each.team == said.team]
    for label in {each.label for each in mine} - {said.label}:
        if alike := _alike(said.label, label):
            faults.append(f"label {alike[0]}: the team has a run {alike[1]} already; spell it alike, or otherwise")
    if lab.deadline is not None and now > lab.deadline and said.kind != "post-hoc":
        there = now.astimezone(lab.deadline.tzinfo)
        over = f"the deadline was {lab.deadline.isoformat()}, and now it is {there.isoformat(timespec='seconds')}"
        faults.append(f"{over}; runs that come later are submitted with --kind post-hoc")
    if offer.primary and said.kind == "post-hoc":
        faults.append(f"primary: {_NOT_PRIMARY}")
    other = [
        each for each in mine if each.label == said.label and (each.kind == "post-hoc") != (said.kind == "post-hoc")
    ]
    if other:
        kinds = f"version {other[-1].version} is {other[-1].kind}, this one {said.kind}"
        faults.append(f"label {said.label!r}: {kinds}; give a post-hoc run a label of its own")
    if lab.cap is not None and len(mine) >= lab.cap:
        faults.append(f"team {said.team}: has made {len(mine)} submissions of {lab.cap}; withdrawn ones count")
    for each in found:
        if each.sha256 == digest and not each.withdrawn:
            own = each.team == said.team
            whose = f"as {each.title} on {each.submitted}" if own or not lab.private else "by another team"
            faults.append(f"{offer.run}: the same rankings were submitted {whose}; nothing is stored")
    return faults


def open_lab(folder: Path, settings: dict[str, Any], baseline: Path | None = None) -> Lab:
    """Make a lab, with a run as its baseline: all of it or nothing; see `harness.labs.lab.new_lab`.

    The baseline is submitted by the team `baseline` under its tag.

    Examples
    --------
    >>> runs = Path("runs/mini/mini-task1")
    >>> open_lab(Path("labs/based"), {"title": "Based", "collection": "mini-task1"}, runs / "shuffle.run").baseline
    'baseline / shuffle'
    """
    if baseline is None:
        return new_lab(folder, settings)
    name = f"{BASELINE} / {read_run(baseline).name}"
    lab = new_lab(folder, {**settings, "baseline": name})
    offer = Offer(baseline, BASELINE, description="The run that others are compared with.")
    try:
        submit(replace(lab, require=(), deadline=None), offer)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return lab
