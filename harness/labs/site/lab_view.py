"""The field of a lab: its current runs with scores, metadata, checked files, and where they put judged documents."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.experiments.task import Task
from harness.io.console import track
from harness.labs.board import (
    Leaderboard,
    LeaderboardRow,
    TestVerdict,
    corrected_for,
    ranked_tests,
    shown_tests,
    verdicts,
)
from harness.labs.folders import SCORES, SUMS
from harness.labs.journal import Event, LabAct
from harness.labs.lab import Lab
from harness.labs.leaderboard import LeaderboardEntry
from harness.labs.roster import Names, has_roster, names_of
from harness.labs.site import metadata
from harness.labs.submissions import METADATA, RUN, Submission, file_faults, from_events, scores_of, stored_run
from harness.render.formulas import located
from harness.render.pages import file_stem
from harness.scoring.comparison import Correction, PairDifference
from harness.scoring.scores import Scores
from harness.store import sidecar

MOST_PLACED = 100  # runs whose positions of judged documents are shown
FIRST = 10  # first documents of each run that are shown


@dataclass(frozen=True)
class StoredFile:
    """A stored file of a submission: name, SHA-256 and size in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, eq=False)
class FieldRun:
    """A current run of a lab.

    Attributes
    ----------
    standing : its row of the leaderboard, which has the name and, with private judgments, the published means.
    description, code, external_data : as its team gave them; empty while they would tell the name behind a pseudonym.
    withheld : what is left out for that reason, in words.
    path : of its page, from the root of the lab's site.
    key : its name in addresses, such as `psu-a2/first.v1`.
    metadata : content of its ir_metadata without names of team and lab, empty if it is withheld; resources and costs
        are read from it all the same.
    verified : whether all stored files have the checksums of the journal.
    reproduced : whether a run made again by the harness is the same.
    """

    submission: Submission
    standing: LeaderboardRow
    team: str
    label: str
    description: str
    code: str
    external_data: str
    withheld: tuple[str, ...]
    path: str
    key: str
    metadata: Mapping[str, Any]
    resources: tuple[str, ...]
    costs: Mapping[str, float]
    files: tuple[StoredFile, ...]
    verified: bool
    reproduced: bool

    @property
    def name(self) -> str:
        """Name of the run as on the leaderboard."""
        return self.standing.name


@dataclass(frozen=True, eq=False)
class Placed:
    """Where runs put the judged documents of a topic.

    Attributes
    ----------
    docs, grades : judged documents, best grade first.
    ranks : int32, shape (docs, runs): rank from 1, unjudged documents counted; 0 if not retrieved.
    firsts : for each run, its first documents.
    """

    docs: tuple[str, ...]
    grades: tuple[float, ...]
    ranks: NDArray[np.int32]
    firsts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class LabView:
    """A lab as its site shows it.

    Attributes
    ----------
    base : folder of the lab in the site.
    runs : current runs in the order of the leaderboard, ranked ones first.
    scores : their scores on the public topics, in the same order, without values where topics may not be shown because
        the judgments are private.
    former : withdrawn, disqualified and replaced submissions, whose pages stay.
    names : names of teams that may be shown.
    roster : whether only teams on a roster may submit.
    final : ranking of a lab with private judgments that has ended.
    acts : of organisers on the lab: frozen, reopened, deadline extended, in order.
    placed : topic -> positions by the first `MOST_PLACED` runs; empty if topics are not shown.
    remarks : what a reader of the numbers must know.
    """

    lab: Lab
    board: Leaderboard
    task: Task
    base: str
    runs: tuple[FieldRun, ...]
    scores: tuple[Scores, ...]
    former: tuple[Submission, ...]
    placed: Mapping[str, Placed]
    remarks: tuple[str, ...]
    all_submissions: tuple[Submission, ...]
    names: Names
    roster: bool = False
    final: Leaderboard | None = None
    acts: tuple[LabAct, ...] = ()

    @property
    def tested(self) -> bool:
        """Whether the lab shows significance."""
        return self.board.grouping != "none"

    def current(self, submission: Submission) -> FieldRun | None:
        """Returns the run that counts of the label of a submission."""
        wanted = (submission.team, submission.label)
        return next((run for run in self.runs if (run.submission.team, run.submission.label) == wanted), None)

    def name(self, submission: Submission) -> str:
        """Returns the name of a submission as leaderboards show it."""
        return f"{self.names.team(submission.team)} / {submission.label}"

    @property
    def topics_shown(self) -> bool:
        """Whether the site has pages of topics, pairs and slices, and values per topic at all."""
        return self.lab.topic_pages

    @property
    def ranked(self) -> int:
        """Number of ranked runs, which come first."""
        return len(self.board.ranked)

    @property
    def main(self) -> str:
        """Measure that ranks."""
        return self.board.main

    def label(self, measure: str) -> str:
        """Returns the label of a measure under the lab's protocol."""
        return self.board.protocol.label(measure)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topics of the edition, numbers in their names in numerical order."""
        return tuple(sorted(self.scores[0].topics, key=_natural))

    @cached_property
    def known(self) -> Mapping[str, Topic]:
        """Topic id -> topic, with its text if the collection has one."""
        topics = self.task.topics.by_id()
        return {topic: topics.get(topic, Topic(topic, "")) for topic in self.topics}

    def values(self, measure: str) -> Floats:
        """Returns values, shape (topics, runs); NaN where a topic does not count."""
        return self._values_of_measures[measure]

    @cached_property
    def _values_of_measures(self) -> dict[str, Floats]:
        """Measure -> values, shape (topics, runs)."""
        place_of = {topic: at for at, topic in enumerate(self.topics)}
        out = {}
        orders = []
        for scores in self.scores:
            order = np.empty(len(self.topics), dtype=np.int64)
            order[[place_of[topic] for topic in scores.topics]] = np.arange(len(scores.topics))
            orders.append(order)
        for measure in self.board.measures:
            columns = [scores.column(measure)[order] for scores, order in zip(self.scores, orders, strict=True)]
            out[measure] = np.stack(columns, axis=1)
        return out

    @cached_property
    def quartiles(self) -> Floats:
        """Lower quartile, median and upper quartile of the ranked runs by the main measure, shape (topics, 3)."""
        values = self.values(self.main)[:, : self.ranked]
        out = np.full((len(self.topics), 3), math.nan)
        counted = ~np.isnan(values).all(axis=1)
        if counted.any():
            out[counted] = np.nanquantile(values[counted], (0.25, 0.5, 0.75), axis=1).T
        return out

    @cached_property
    def clusters(self) -> Mapping[str, str] | None:
        """Topic -> its cluster of dependent topics; None if topics are independent."""
        return self.task.collection.clusters()

    @cached_property
    def _scores_with_names(self) -> list[Scores]:
        return [replace(scores, run=run.name) for run, scores in zip(self.runs, self.scores, strict=True)]

    @cached_property
    def verdicts(self) -> Mapping[frozenset[str], TestVerdict]:
        """Pair of ranked runs -> corrected test of the main measure, as on the leaderboard; empty if it tests none."""
        if self.board.private or not self.tested:
            return {}
        alpha, family = self.board.alpha, self.board.family
        ranked = self._scores_with_names[: self.ranked]
        made, _ = ranked_tests(ranked, self.main, alpha=alpha, declared=family, clusters=self.clusters)
        return verdicts(made, cast("Correction", self.board.correction))

    @cached_property
    def against_best(self) -> Mapping[str, PairDifference]:
        """Run -> uncorrected test of its main measure against the best run; empty if the judgments are private.

        Only runs with at least two topics (clusters) in common with the best run have one.
        """
        best, *others = self._scores_with_names
        of = {topic: topic if self.clusters is None else self.clusters[topic] for topic in best.topics}
        counted = {
            each.run: {each.topics[at] for at in np.flatnonzero(~np.isnan(each.column(self.main)))}
            for each in self._scores_with_names
        }
        tested = [each for each in others if len({of[topic] for topic in counted[each.run] & counted[best.run]}) > 1]
        if self.board.private or not tested:
            return {}
        alpha, clusters = self.board.alpha, self.clusters
        tests = shown_tests([best, *tested], baseline=best.run, measures=[self.main], alpha=alpha, clusters=clusters)
        return {row.a: row for row in tests.rows}

    @property
    def best(self) -> str:
        """What texts call the first run: the best ranked one, or the best one if none is ranked."""
        return "the best ranked run" if self.ranked else "the best run (none is ranked)"

    @property
    def corrected_for(self) -> str:
        """The leaderboard's correction in words."""
        return corrected_for(self.board.correction, self.board.family)

    @cached_property
    def topic_paths(self) -> Mapping[str, str]:
        """Topic -> path of its page."""
        return {topic: f"{self.base}/topics/{file_stem(topic)}.html" for topic in self.topics}

    def title_of(self, topic: str, most: int = 90) -> str:
        """Returns the title of a topic, or the start of its text, in one line."""
        document = self.known[topic]
        return start_of(" ".join((document.title or document.body).split()), most)


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Returns a key that orders A.2 before A.10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]+", name)
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts], name


def start_of(text: str, most: int) -> str:
    """Returns the start of a text; formulas stay whole.

    Examples
    --------
    >>> start_of("Show that $a + b = c$ for all numbers", 24)
    'Show that $a + b = c$ …'
    """
    if len(text) <= most:
        return text
    cut = text.rfind(" ", most // 2, most + 1)
    cut = most if cut < 0 else cut
    for begin, end, _ in located(text):
        if begin < cut < end:
            cut = begin if begin > most // 3 else end
    return f"{text[:cut].rstrip()} …"


def field_of(
    lab: Lab,
    board: Leaderboard,
    entries: Sequence[LeaderboardEntry],
    journal: Sequence[Event],
    base: str,
    *,
    remarks: Sequence[str] = (),
    reproduced: frozenset[str] = frozenset(),
    final: Leaderboard | None = None,
) -> LabView:
    """Checks the files of all current runs, scores them again and, if topics may be shown, places judged documents.

    Parameters
    ----------
    entries : of the leaderboard, in the order of the current submissions.
    journal : the lab's events that the leaderboard was made from.
    reproduced : SHA-256 of canonical runs that the harness made again.
    final : ranking of a lab with private judgments that has ended.

    Raises
    ------
    HarnessError
        A run is damaged, or its collection cannot be read.
    """
    with lab.guarded():
        task = lab.task()
    submissions = from_events(journal, lab.folder)
    current = [each for each in submissions if each.current]
    by_name = {entry.name: (entry, each) for entry, each in zip(entries, current, strict=True)}
    standings = (*board.ranked, *board.others)
    placing = _Placing(task, [each.name for each in standings[:MOST_PLACED]]) if lab.topic_pages else None
    names = names_of(lab, datetime.now(UTC))
    runs, scores = [], []
    for number, standing in enumerate(track(standings, "checking runs")):
        entry, submission = by_name[standing.name]
        run = stored_run(submission)
        with lab.guarded():
            again = task.scorer(run)
        if placing is not None and number < MOST_PLACED:
            placing.add(number, task.scorer.rankings(run, task.scorer.protocol.depth or 1_000))
        kept = scores_of(lab, submission)  # of all topics, unlike the entry's
        if again.measures != kept.measures or not np.array_equal(again.values, kept.values, equal_nan=True):
            reason = f"{submission.run}: has other scores now than those stored; see 'harness lab check {lab.folder}'"
            raise HarnessError(reason)
        runs.append(_field_run(lab, standing, submission, base, reproduced, names))
        scores.append(entry.scores)
    former = tuple(each for each in submissions if not each.current)
    acts = tuple(each for each in journal if isinstance(each, LabAct))
    placed = {} if placing is None else placing.done()
    found = (tuple(runs), tuple(scores), former, placed, tuple(remarks), submissions, names, has_roster(lab, journal))
    return LabView(lab, board, task, base, *found, final, acts)


def submission_key(submission: Submission) -> str:
    """Returns the name of a submission in paths and addresses, which never changes: a pseudonym stays in it.

    An example is `psu/run-1-b33d193f.v2` for version 2 of `PSU / run=1`.
    """
    return f"{file_stem(submission.team)}/{file_stem(submission.label)}.v{submission.version}"


def _field_run(
    lab: Lab, standing: LeaderboardRow, submission: Submission, base: str, reproduced: frozenset[str], names: Names
) -> FieldRun:
    key = submission_key(submission)
    folder = submission.run.parent
    faults = file_faults(folder, submission.checksum)
    document = {} if faults else _metadata(submission)
    hidden = names.is_hidden(submission.team)
    given = {name: getattr(submission, name) for name in ("description", "code", "external_data")}
    # An address of code, or a command with its paths, tells who wrote it even without the team's name.
    shown = {name: "" if hidden and name == "code" else names.text(text) for name, text in given.items()}
    open_document = {} if hidden or not names.text(repr(document)) else document
    withheld = [name.replace("_", " ") for name, text in given.items() if text and not shown[name]]
    withheld += ["metadata"] if document and not open_document else []
    return FieldRun(
        submission,
        standing,
        names.team(submission.team),
        submission.label,
        **shown,
        withheld=tuple(withheld),
        path=f"{base}/runs/{key}.html",
        key=key,
        metadata=open_document,
        resources=metadata.resources(document, submission.external_data),
        costs=metadata.costs(document),
        files=_files(lab, submission),
        verified=not faults,
        reproduced=submission.sha256 in reproduced,
    )


def _metadata(submission: Submission) -> dict[str, Any]:
    """Returns the metadata of a run without what names team, lab and collection."""
    stored_metadata = sidecar.read(submission.run.parent / METADATA)
    kept = {key: value for key, value in stored_metadata.items() if key not in ("tag", "actor", "lab", "data")}
    if isinstance(data := stored_metadata.get("data"), Mapping):
        kept["data"] = {key: value for key, value in data.items() if key != "test collection"}
    return {key: value for key, value in kept.items() if value}


def _files(lab: Lab, submission: Submission) -> tuple[StoredFile, ...]:
    """Returns the public files of a submission; of a private lab only those that hold no scores."""
    folder = submission.run.parent
    shown = (RUN, METADATA) if lab.private else (RUN, METADATA, SCORES)
    lines = (line.partition("  ") for line in (folder / SUMS).read_text("utf-8").splitlines())
    listed = {name: digest for digest, _, name in lines}
    return tuple(StoredFile(name, listed[name], (folder / name).stat().st_size) for name in shown if name in listed)


class _Placing:
    """Collects where runs put judged documents, topic by topic."""

    def __init__(self, task: Task, runs: Sequence[str]) -> None:
        judged: dict[str, list[tuple[float, str]]] = {topic: [] for topic in task.scorer.qrels.topics}
        qrels = task.scorer.qrels.judged()
        for topic, doc, grade in zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True):
            judged[qrels.topics[topic]].append((-grade, doc.decode()))
        self._docs = {topic: sorted(docs) for topic, docs in judged.items()}
        self._at = {topic: {doc: at for at, (_, doc) in enumerate(docs)} for topic, docs in self._docs.items()}
        self._ranks = {topic: np.zeros((len(docs), len(runs)), dtype=np.int32) for topic, docs in self._docs.items()}
        self._firsts: dict[str, list[tuple[str, ...]]] = {topic: [()] * len(runs) for topic in self._docs}

    def add(self, run: int, rankings: Mapping[str, Any]) -> None:
        """Adds one run's rankings."""
        for topic, ranking in rankings.items():
            at = self._at[topic]
            for doc, rank in ranking.judged.items():
                self._ranks[topic][at[doc], run] = rank
            self._firsts[topic][run] = ranking.docs[:FIRST]

    def done(self) -> dict[str, Placed]:
        """Returns topic -> positions."""
        return {
            topic: Placed(
                tuple(doc for _, doc in docs),
                tuple(-grade for grade, _ in docs),
                self._ranks[topic],
                tuple(self._firsts[topic]),
            )
            for topic, docs in self._docs.items()
        }
