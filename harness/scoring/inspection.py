"""Checks of one run for what makes its scores wrong or doubtful: coverage, ties, suspicious scores and rankings.

The reader of runs refuses faults of the format; what is found here can be scored, and may be meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from harness.data.columns import Floats, Index
from harness.data.trec import Qrels, Run
from harness.errors import FormatError, HarnessError, counted_text
from harness.scoring.rankings import as_single
from harness.scoring.scorer import Scorer

Level = Literal["error", "warning", "note"]
HEAD = 10  # results of a topic that people look at
FEW = 5  # topics from which a pattern over topics is no accident
MOST = 0.9  # share of topics from which a pattern is reported


@dataclass(frozen=True)
class InspectionRule:
    """A check: its name, what it looks for, and why that matters.

    `refused` says whether scoring refuses the run.
    """

    name: str
    level: Level
    title: str
    help: str
    refused: bool = False


@dataclass(frozen=True)
class Finding:
    """A finding of one rule.

    `row` is the first result of the run (from 0) that shows it, None for the run as a whole; `line` is its line in the
    file (from 1) where that is known already, else 0.
    """

    rule: InspectionRule
    message: str
    row: int | None = None
    line: int = 0


# Name (with `!`: scoring refuses the run), level, title, and why it matters.
_LISTED = """
format! | error | The file is not a valid run | Scoring refuses the file until the line is mended.
unknown-topic! | error | Results for a topic that the collection lacks | Scoring refuses the file.
not-scored! | error | The run cannot be scored | Scoring refuses the file for this reason.
unknown-document | error | Documents that the corpus lacks | They can only count as not relevant.
no-judged-document | warning | No document is judged | The run may be of another collection.
unjudged-topics | note | Topics without judgments | Scoring ignores their results.
missing-topics | warning | Topics without results | Most protocols score them as 0.
short-topics | note | Topics with few results | Cutoff measures count missing results as not relevant.
beyond-depth | note | Results beyond the depth of the protocol | Scoring ignores them.
rank-order | warning | Ranks that disagree with scores | Scoring follows the scores, not the ranks.
file-order | warning | Scores that rise in the file's order | Programs that keep that order rank otherwise.
split-topic | note | Topics whose lines are not together | Some programs read only the first part of them.
constant-scores | warning | All results of a topic have one score | Their order is decided by document ids.
ties | note | Tied results | Their order is decided by document ids, in trec_eval and here.
single-precision| warning | Scores that are equal as 32-bit numbers | trec_eval 9 compares such numbers: these are ties.
same-ranking | warning | Several topics have the same first results | The system may ignore its query.
common-document | warning | A document that nearly every topic finds | It may match anything, or be empty.
ranks-as-scores | note | Scores that only repeat the rank | Fusion by scores cannot use them.
judged-only | warning | Every result is judged | A run of the pool is not comparable with one of the corpus.
judgment-order | warning | Results are in the order of the judgments | The system may have seen the judgments.
"""


def _rule(line: str) -> InspectionRule:
    name, level, title, why = map(str.strip, line.split("|"))
    return InspectionRule(name.removesuffix("!"), cast("Level", level), title, why, name.endswith("!"))


RULES: Mapping[str, InspectionRule] = {rule.name: rule for rule in map(_rule, _LISTED.strip().splitlines())}


@dataclass(frozen=True)
class InspectionContext:
    """What a run is checked against; None where it is not known, then the checks that need it are left out.

    Attributes
    ----------
    topics : ids of the topics that a run may answer.
    expected : ids of the topics that it should answer.
    documents : ids of the corpus.
    qrels : judgments, of documents' keys if `keys` is given.
    keys : document -> key of de-duplication.
    depth : depth of the protocol.
    scorer : scores the run, as the command `score` does; what it refuses is an error.
    """

    topics: Collection[str] | None = None
    expected: Collection[str] | None = None
    documents: Collection[str] | None = None
    qrels: Qrels | None = None
    keys: Mapping[str, str] | None = None
    depth: int | None = None
    scorer: Scorer | None = None


def inspect(run: Run, against: InspectionContext | None = None) -> list[Finding]:
    """Returns the findings on a run, in the order of `RULES`.

    Examples
    --------
    >>> run = Run.from_dict("mine", {"q1": {"d1": 1.0, "d2": 1.0, "d3": 1.0}})
    >>> [finding.rule.name for finding in inspect(run, InspectionContext(expected=["q1", "q2"]))]
    ['missing-topics', 'short-topics', 'constant-scores', 'ties']
    """
    given = against or InspectionContext()
    order = np.lexsort((-run.score, run.topic))  # by topic and score, ties in the order of the file
    rank = np.arange(len(run)) - np.searchsorted(run.topic[order], run.topic[order])
    seen = _Sorted(run, order, rank)
    findings = [
        *_topics(seen, given),
        *_coverage(seen, given),
        *_orders(seen),
        *_scores(seen),
        *_rankings(seen),
        *_judged(seen, given),
    ]
    places = {name: place for place, name in enumerate(RULES)}
    return sorted(findings, key=lambda finding: places[finding.rule.name])


@dataclass(frozen=True)
class _Sorted:
    """A run with the rows of its results by topic and score, and their ranks from 0."""

    run: Run
    order: Index
    rank: Index

    def counts(self) -> Index:
        """Returns the number of results of each topic."""
        return np.bincount(self.run.topic, minlength=len(self.run.topics))

    def heads(self, size: int) -> list[list[bytes]]:
        """Returns the first documents of each topic, best first."""
        out: list[list[bytes]] = [[] for _ in self.run.topics]
        rows = self.order[self.rank < size]
        for topic, doc in zip(self.run.topic[rows].tolist(), self.run.doc[rows].tolist(), strict=True):
            out[topic].append(doc)
        return out


def _find(name: str, message: str, row: int | None = None) -> Finding:
    return Finding(RULES[name], message, row)


def _such(count: int, what: str, example: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}, such as {example!r}"


def _topics(seen: _Sorted, given: InspectionContext) -> Iterator[Finding]:
    """Yields what scoring refuses, and topics that it ignores."""
    run = seen.run
    if given.topics is not None and (strange := [name for name in run.topics if name not in given.topics]):
        said = _such(len(strange), "topic", strange[0])
        yield _find("unknown-topic", f"the collection lacks {said}", _first(run, strange[0]))
        return
    if given.scorer is None:
        return
    try:
        given.scorer(run)
    except FormatError as error:
        yield from (Finding(RULES["not-scored"], each.reason, line=each.line) for each in error.problems)
    except HarnessError as error:
        yield from (_find("not-scored", line) for line in error.lines)
    else:
        asked = set(given.scorer.qrels.topics)
        if unjudged := [name for name in run.topics if name not in asked]:
            said = _such(len(unjudged), "topic", unjudged[0])
            yield _find("unjudged-topics", f"no judgments for {said}", _first(run, unjudged[0]))


def _first(run: Run, topic: str) -> int:
    """Returns the first row of a topic."""
    return int(np.argmax(run.topic == run.topics.index(topic)))


def _coverage(seen: _Sorted, given: InspectionContext) -> Iterator[Finding]:
    run = seen.run
    if given.expected is not None and (lacking := sorted(set(given.expected) - set(run.topics))):
        of = f"{len(lacking):,} of {len(given.expected):,} topics have no results, such as {lacking[0]!r}"
        yield _find("missing-topics", of)
    if given.documents is not None:
        docs = np.unique(run.doc)
        unknown = [doc for doc in docs.tolist() if doc.decode() not in given.documents]
        if unknown:
            row = int(np.argmax(run.doc == unknown[0]))
            said = _such(len(unknown), "document", unknown[0].decode())
            yield _find("unknown-document", f"the corpus lacks {said}", row)
    counts = seen.counts()
    usual = HEAD if given.depth is None else min(HEAD, given.depth)
    few = np.flatnonzero(counts < usual)
    if few.size:
        said = f"{few.size:,} of {counts.size:,} topics have fewer than {usual} results, such as {run.topics[few[0]]!r}"
        yield _find("short-topics", said)
    if given.depth is not None and (over := np.flatnonzero(counts > given.depth)).size:
        many = f"{over.size:,} of {counts.size:,} topics have more than {given.depth:,} results"
        said = f"{many}, such as {run.topics[over[0]]!r}"
        yield _find("beyond-depth", said)


def _orders(seen: _Sorted) -> Iterator[Finding]:
    run = seen.run
    for warning in run.warnings:
        yield Finding(RULES["rank-order"], warning.reason, line=warning.line)
    heads = np.flatnonzero(np.diff(run.topic, prepend=-1))
    split = Counter(run.topic[heads].tolist())
    torn = [topic for topic, times in split.items() if times > 1]
    if torn:
        row = int([at for at in heads.tolist() if run.topic[at] == torn[0]][1])
        said = f"{_such(len(torn), 'topic', run.topics[torn[0]])}: the lines of a topic are not together"
        yield _find("split-topic", said, row)
    by_topic = np.argsort(run.topic, kind="stable")
    score, topic = run.score[by_topic], run.topic[by_topic]
    rising = np.flatnonzero((topic[1:] == topic[:-1]) & (score[1:] > score[:-1])) + 1
    if rising.size:
        row = int(by_topic[rising[0]])
        before = f"a higher score than the result before {'it' if rising.size == 1 else 'them'}"
        many = f"{counted_text(rising.size, 'result has', 'results have')} {before}"
        which = f"{run.doc[row].decode()!r} of topic {run.topics[run.topic[row]]!r}"
        yield _find("file-order", f"{many}, such as {which}", row)


def _scores(seen: _Sorted) -> Iterator[Finding]:
    run = seen.run
    score, topic = run.score[seen.order], run.topic[seen.order]
    same = topic[1:] == topic[:-1]
    tied = same & (score[1:] == score[:-1])
    counts = seen.counts()
    steps = np.bincount(topic[1:][tied], minlength=counts.size)
    constant = np.flatnonzero((counts > 2) & (steps == counts - 1))
    if constant.size:
        row = int(np.argmax(run.topic == constant[0]))
        many_topics = f"{constant.size:,} of {counts.size:,} topics have one score for all results"
        yield _find("constant-scores", f"{many_topics}, such as {run.topics[constant[0]]!r}", row)
    mates = np.zeros(len(run), dtype=bool)
    mates[1:] |= tied
    mates[:-1] |= tied
    if tied.any():
        near = np.count_nonzero(mates & (seen.rank < HEAD))
        row = int(seen.order[np.argmax(mates)])
        said = f"{np.count_nonzero(mates):,} of {len(run):,} results are tied, {near:,} of them among the first {HEAD}"
        yield _find("ties", said, row)
    single = as_single(score)
    merged = same & (single[1:] == single[:-1]) & ~tied
    if merged.any():
        row = int(seen.order[int(np.argmax(merged)) + 1])
        many_pairs = counted_text(int(np.count_nonzero(merged)), "pair of neighbours has", "pairs of neighbours have")
        yield _find("single-precision", f"{many_pairs} different scores that are equal as 32-bit numbers", row)
    if len(run) > len(run.topics) and _repeats_ranks(seen):
        yield _find("ranks-as-scores", "scores fall by the same step, or are 1 / rank, in each topic", 0)


def _repeats_ranks(seen: _Sorted) -> bool:
    """Returns whether the scores of all topics are a linear function of the rank, or 1 / rank."""
    score, topic = seen.run.score[seen.order], seen.run.topic[seen.order]
    inner = (topic[2:] == topic[:-2]) if topic.size > 2 else np.zeros(0, dtype=bool)
    if not inner.any():
        return False
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first, second = score[1:-1] - score[:-2], score[2:] - score[1:-1]
        even = bool((np.isclose(first, second, rtol=1e-6, atol=0) & (first < 0))[inner].all())
        inverse = bool(np.isclose(score * (seen.rank + 1), 1, rtol=1e-4).all())
    return even or inverse


def _rankings(seen: _Sorted) -> Iterator[Finding]:
    run = seen.run
    heads = seen.heads(HEAD)
    topics = len(run.topics)
    rankings = Counter(tuple(head) for head in heads if len(head) > 2)
    most, times = rankings.most_common(1)[0] if rankings else ((), 0)
    if times > 1:
        topic = next(at for at, head in enumerate(heads) if tuple(head) == most)
        row = int(np.argmax(run.topic == topic))
        said = f"{times:,} of {topics:,} topics have the same first {len(most)} results, such as {run.topics[topic]!r}"
        yield _find("same-ranking", said, row)
        return
    documents = Counter(doc for head in heads for doc in head)
    if documents and topics >= FEW:
        doc, times = documents.most_common(1)[0]
        if times >= MOST * topics and len(documents) > HEAD:
            row = int(np.argmax(run.doc == doc))
            said = f"document {doc.decode()!r} is among the first {HEAD} results of {times:,} of {topics:,} topics"
            yield _find("common-document", said, row)


def _judged(seen: _Sorted, given: InspectionContext) -> Iterator[Finding]:
    if given.qrels is None or not len(given.qrels):
        return
    run = seen.run
    grades = _grades(seen, given.qrels, given.keys)
    judged = ~np.isnan(grades)
    asked = set(given.qrels.topics)
    answered = np.isin(run.topic[seen.order], [at for at, name in enumerate(run.topics) if name in asked])
    if not answered.any():
        return
    if not judged.any():
        name = run.doc[0].decode()
        yield _find("no-judged-document", f"none of the {len(run):,} results is judged, such as {name!r}", 0)
        return
    if judged[answered].all():
        yield _find("judged-only", f"all {np.count_nonzero(answered):,} results of judged topics are judged")
    perfect = total = 0
    for mine in np.split(grades, np.cumsum(seen.counts())[:-1]):
        known = mine[~np.isnan(mine)]
        if len(set(known.tolist())) < 2 or np.count_nonzero(known > 0) < 2:
            continue
        total += 1
        # Unjudged results among the relevant ones mean that the order is the system's own.
        last = int(np.flatnonzero(np.nan_to_num(mine) > 0)[-1])
        perfect += not np.isnan(mine[: last + 1]).any() and bool((np.diff(known) <= 0).all())
    if total >= FEW and perfect >= MOST * total:
        fall = f"in {perfect:,} of {total:,} topics, results fall by their grade"
        yield _find("judgment-order", f"{fall}, and no unjudged one is among the relevant")


def _grades(seen: _Sorted, qrels: Qrels, keys: Mapping[str, str] | None) -> Floats:
    """Returns the grade of each result in sorted order, NaN if it is not judged."""
    table = {
        (qrels.topics[topic], doc): grade
        for topic, doc, grade in zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    }
    run = seen.run
    docs = run.doc[seen.order].tolist()
    names = docs if keys is None else [keys.get(doc.decode(), "").encode() for doc in docs]
    topics = run.topic[seen.order].tolist()
    return np.array([table.get((run.topics[topic], name), np.nan) for topic, name in zip(topics, names, strict=True)])
