"""Corpora that hold only part of the judged documents: judgments restricted to them, with counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.data.trec import Qrels
from harness.io.files import sha256
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import Protocol


@dataclass(frozen=True)
class Coverage:
    """How much of the judgments a corpus holds.

    Attributes
    ----------
    pairs, present : judged pairs of topic and document, and those whose document is there.
    topics : topics with judgments.
    judged : topic -> how many of its judged documents are there; topics without any are left out.
    grades : topic -> the distinct grades of those documents.
    """

    pairs: int
    present: int
    topics: int
    judged: Mapping[str, int]
    grades: Mapping[str, frozenset[float]]

    @property
    def complete(self) -> bool:
        """Whether every judged document is there."""
        return self.present == self.pairs

    def relevant_from(self, grade: float) -> int:
        """Topics with a document of this grade or a higher one."""
        return sum(max(grades) >= grade for grades in self.grades.values())

    def with_gain(self, protocol: Protocol) -> int:
        """Topics with a document that has a gain, as nDCG needs it."""
        gains = {} if protocol.gains == "exponential" else dict(protocol.gains)  # 2^grade - 1 is above 0 as grades are
        return sum(any(gains.get(grade, grade) > 0 for grade in grades) for grades in self.grades.values())

    def sentence(self, protocol: Protocol, notes: Iterable[str] = ()) -> str:
        """Returns the sentence that precedes all numbers made with these judgments.

        For example: judged and present: 723 of 34,847 pairs; 69 topics with a relevant document for nDCG′, 62 for
        MAP′ and P′@10; documents chosen by another system's display, not at random; not comparable with published
        values.

        Parameters
        ----------
        notes : what the corpus says of how its documents were chosen.
        """
        kinds: dict[float, list[str]] = {}  # relevance threshold, 0 for measures that are made from gains
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
            parts = [first.replace(" for ", " topics with a relevant document for ", 1), *others]
        said = [f"judged and present: {self.present:,} of {self.pairs:,} pairs", ", ".join(parts)]
        if not self.complete:
            said += [*notes, "not comparable with published values"]
        return "; ".join(part for part in said if part)


def _listed(names: list[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def restrict(qrels: Qrels, ids: Iterable[str]) -> tuple[Qrels, Coverage]:
    """Judgments of the documents that a corpus holds, and how many those are.

    A topic none of whose judged documents is there has no judgments any more; one whose relevant documents are all
    missing keeps the others. If everything is there, the judgments are the same ones; else they have a checksum of
    their own.

    Parameters
    ----------
    ids : of the corpus's documents, in any order; read once, nothing of them is kept.
    """
    judged = set(qrels.doc.tolist())
    there = judged.intersection(name.encode() for name in ids)
    keep = np.array([doc in there for doc in qrels.doc.tolist()], dtype=bool)
    rows = np.flatnonzero(keep)
    counts: dict[str, int] = {}
    grades: dict[str, set[float]] = {}
    for topic, grade in zip(qrels.topic[rows].tolist(), qrels.grade[rows].tolist(), strict=True):
        name = qrels.topics[topic]
        counts[name] = counts.get(name, 0) + 1
        grades.setdefault(name, set()).add(grade)
    frozen = {name: frozenset(found) for name, found in grades.items()}
    coverage = Coverage(len(qrels), int(rows.size), len(qrels.topics), counts, frozen)
    if coverage.complete:
        return qrels, coverage
    left = np.unique(qrels.topic[rows])
    topics = tuple(qrels.topics[topic] for topic in left.tolist())
    topic = np.searchsorted(left, qrels.topic[rows]).astype(np.int32)
    checksum = sha256(f"{qrels.sha256}\n".encode() + np.packbits(keep).tobytes())
    return Qrels(qrels.edition, topics, topic, qrels.doc[rows], qrels.grade[rows], checksum), coverage
