"""Restricts judgments to the documents of a corpus that has only part of them, and counts the coverage.

Remarks on judgments and scores: grades of an unusual kind, and runs of which nothing is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.data.trec import Qrels, Run
from harness.errors import counted_text
from harness.io.files import sha256
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores


@dataclass(frozen=True)
class Coverage:
    """Share of the judgments whose documents are in a corpus.

    Attributes
    ----------
    pairs, present : numbers of judged pairs of topic and document, and of those whose document is in the corpus.
    topics : number of topics with judgments.
    judged : topic -> number of its judged documents in the corpus; topics without any are left out.
    grades : topic -> the distinct grades of those documents.
    """

    pairs: int
    present: int
    topics: int
    judged: Mapping[str, int]
    grades: Mapping[str, frozenset[float]]

    @property
    def complete(self) -> bool:
        """Whether the corpus contains every judged document."""
        return self.present == self.pairs

    def relevant_from(self, grade: float) -> int:
        """Returns the number of topics with a document of at least this grade."""
        return sum(max(grades) >= grade for grades in self.grades.values())

    def with_gain(self, protocol: Protocol) -> int:
        """Returns the number of topics with a document that has a gain above 0, as required by nDCG."""
        gains = {} if protocol.gains == "exponential" else dict(protocol.gains)  # 2^grade - 1 is above 0 as grades are
        return sum(any(gains.get(grade, grade) > 0 for grade in grades) for grades in self.grades.values())

    def sentence(self, protocol: Protocol, notes: Iterable[str] = ()) -> str:
        """Returns the caveat that precedes all scores computed with these judgments.

        For example: judged and present: 723 of 34,847 pairs; 69 topics with a relevant document for nDCG′, 62 for
        MAP′ and P′@10; documents selected by the MathDowsers team for display, not at random; not comparable with
        published values.

        Parameters
        ----------
        notes : notes of the corpus on how its documents were chosen.
        """
        kinds: dict[float, list[str]] = {}  # keys: relevance threshold, 0 for measures that use gains
        for measure in protocol.measures:
            parsed = parse_measure(measure)
            if not parsed.diagnostic:
                level = 0 if parsed.graded else parsed.relevant_from or protocol.relevant_from
                kinds.setdefault(level, []).append(protocol.label(measure))
        parts = [
            f"{self.relevant_from(level) if level else self.with_gain(protocol)} for {_listed(names)}"
            for level, names in sorted(kinds.items())
        ]
        if parts:
            first, *others = parts
            number, _, measures = first.partition(" for ")
            topics = "topic" if number == "1" else "topics"
            parts = [f"{number} {topics} with a relevant document for {measures}", *others]
        said = [f"judged and present: {self.present:,} of {self.pairs:,} pairs", ", ".join(parts)]
        if not self.complete:
            said += [*notes, "not comparable with published values"]
        return "; ".join(part for part in said if part)


def _listed(names: list[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def restrict_judgments(qrels: Qrels, ids: Iterable[str]) -> tuple[Qrels, Coverage]:
    """Restricts judgments to the documents of a corpus; returns them with their coverage.

    A topic without judged documents in the corpus is dropped; a topic that lost all relevant documents is kept. If the
    corpus has all judged documents, the judgments are returned unchanged; else they get a new checksum.

    Parameters
    ----------
    ids : ids of the corpus's documents, in any order; iterated once.
    """
    there = set(qrels.doc.tolist()).intersection(name.encode() for name in ids)
    keep = np.array([doc in there for doc in qrels.doc.tolist()], dtype=bool)
    rows = np.flatnonzero(keep)
    judged = rows[qrels.grade[rows] >= 0]
    counts: dict[str, int] = {}
    grades: dict[str, set[float]] = {}
    for topic, grade in zip(qrels.topic[judged].tolist(), qrels.grade[judged].tolist(), strict=True):
        name = qrels.topics[topic]
        counts[name] = counts.get(name, 0) + 1
        grades.setdefault(name, set()).add(grade)
    frozen = {name: frozenset(distinct) for name, distinct in grades.items()}
    coverage = Coverage(len(qrels.judged()), int(judged.size), len(qrels.topics), counts, frozen)
    if coverage.complete:
        return qrels, coverage
    left = np.unique(qrels.topic[rows])
    topics = tuple(qrels.topics[topic] for topic in left.tolist())
    topic = np.searchsorted(left, qrels.topic[rows]).astype(np.int32)
    checksum = sha256(f"{qrels.sha256}\n".encode() + np.packbits(keep).tobytes())
    return Qrels(qrels.edition, topics, topic, qrels.doc[rows], qrels.grade[rows], checksum), coverage


def grade_remarks(scorer: Scorer) -> list[str]:
    """Returns how grades below 0, and those that are not whole numbers, are taken by a scorer's measures."""
    grade, protocol = scorer.qrels.grade, scorer.protocol
    out = []
    if below := int(np.count_nonzero(grade < 0)):
        several = counted_text(
            below, "judgment has a grade below 0 and counts", "judgments have a grade below 0 and count"
        )
        out.append(f"{several} as not judged, as in trec_eval")
    broken = grade[(grade != np.floor(grade)) & (grade > 0)]
    binary = [protocol.label(name) for name in scorer.measures if _has_threshold(name)]
    if broken.size and binary:
        out.append(
            f"grades are not whole numbers, such as {broken[0]:g}; relevant from {protocol.relevant_from:g} in "
            f"{', '.join(binary)} (key relevant_from of protocol {protocol.name})"
        )
    return out


def _has_threshold(name: str) -> bool:
    measure = parse_measure(name)
    return not measure.graded and not measure.diagnostic and measure.relevant_from is None


def not_judged(scorer: Scorer, run: Run, scores: Scores) -> str:
    """Returns the remark that none of a run's documents is judged for any topic; empty if one is."""
    # Other measures are not 0 if nothing is judged.
    columns = [not (m := parse_measure(name)).diagnostic and m.aggregate != "geometric" for name in scores.measures]
    if not scores.counts.get("results without judgment") or np.nan_to_num(scores.values[:, columns]).any():
        return ""
    docs = {doc.decode() for doc in run.doc.tolist()}
    if not {scorer.key(doc).encode() for doc in docs}.isdisjoint(scorer.qrels.judged().doc.tolist()):
        return ""
    return f"none of its {len(docs):,} documents is judged, such as {min(docs)!r}; is it a run on {scorer.collection}?"
