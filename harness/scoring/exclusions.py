"""Exclusions: documents removed per topic from runs, before ranks are counted, and from judgments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Ids, Index, pair_hashes
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, capitalised, counted_text
from harness.io.files import sha256

Rule = Literal["own", "listed", "later"]
RULES: tuple[Rule, ...] = get_args(Rule)
STRETCH = 1 << 18  # pairs processed at a time, to limit memory
IN_WORDS: Mapping[Rule, str] = {
    "own": "the document whose id is the topic's",
    "listed": "documents that the collection lists for the topic",
    "later": "documents at or after the topic's place in the collection's order",
}


@dataclass(frozen=True, eq=False)
class Exclusions:
    """Documents excluded from scoring, by topic.

    The rule `later` does not affect documents and topics without a position.

    Attributes
    ----------
    rules : `own`, `listed`, `later`; a pair is excluded if at least one rule applies.
    listed : topic -> ids of excluded documents; used by `listed` only.
    places : document -> position in the collection's order; used by `later` only.
    topic_places : topic -> position in the same order; None: topics are themselves documents in the order.

    Examples
    --------
    >>> run = Run.from_dict("mine", {"b": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> later = Exclusions(("later",), places={"a": 0, "b": 1, "c": 2})
    >>> later.out(run.topics, run.topic, run.doc).tolist()
    [False, True, True]
    >>> later.among(np.array([b"c", b"a"]))("b").tolist()
    [True, False]
    """

    rules: tuple[Rule, ...]
    listed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    places: Mapping[str, float] = field(default_factory=dict)
    topic_places: Mapping[str, float] | None = None

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the rules and of the data that they use."""
        parts: list[object] = [sorted(self.rules)]
        if "listed" in self.rules:
            parts.append(sorted((topic, sorted(docs)) for topic, docs in self.listed.items() if docs))
        if "later" in self.rules:
            of_topics = self.topic_places
            parts += [sorted(self.places.items()), None if of_topics is None else sorted(of_topics.items())]
        return sha256(repr(parts).encode())

    def out(self, topics: Sequence[str], topic: npt.NDArray[np.integer[Any]], doc: Ids) -> Bools:
        """Returns a mask of excluded (topic, document) pairs, shape (pairs,).

        Parameters
        ----------
        topics : ids of topics.
        topic : shape (pairs,). Index into `topics`.
        doc : bytes, shape (pairs,). Ids of documents.
        """
        out = np.zeros(doc.size, dtype=bool)
        if not doc.size:
            return out
        names = np.array([name.encode() for name in topics], dtype=np.bytes_)
        at = np.array([self._place_of(name) for name in topics])
        for begin in range(0, doc.size, STRETCH):
            part = slice(begin, begin + STRETCH)
            of, docs = topic[part], doc[part]
            if "own" in self.rules:
                out[part] |= names[of] == docs
            if "listed" in self.rules:
                out[part] |= self._listed_pairs(topics, of, docs)
            if "later" in self.rules:
                out[part] |= self._places_of(docs) >= at[of]
        return out

    def among(self, docs: Ids) -> Callable[[str], Bools]:
        """Returns a function that maps a topic to the mask of excluded documents, bool, shape (documents,).

        Memory grows with the documents, not with topics times documents.
        """
        order = np.argsort(docs, kind="stable")
        ordered = docs[order]
        place = self._places_of(docs) if "later" in self.rules else np.zeros(0)

        def out(topic: str) -> Bools:
            mask = np.zeros(docs.size, dtype=bool)
            named = set(self.listed.get(topic, ())) if "listed" in self.rules else set()
            named |= {topic} if "own" in self.rules else set()
            if named and docs.size:
                wanted = np.array([name.encode() for name in sorted(named)], dtype=np.bytes_)
                row = np.minimum(np.searchsorted(ordered, wanted), docs.size - 1)
                mask[order[row[ordered[row] == wanted]]] = True
            if "later" in self.rules:
                mask |= place >= self._place_of(topic)
            return mask

        return out

    def without_place(self, docs: Ids) -> int:
        """Returns the number of documents without a position, which `later` needs; 0 without that rule."""
        if "later" not in self.rules:
            return 0
        parts = (docs[begin : begin + STRETCH] for begin in range(0, docs.size, STRETCH))
        return sum(int(np.count_nonzero(np.isnan(self._places_of(part)))) for part in parts)

    def kept(self, run: Run) -> Run:
        """Returns the run without excluded results; topics without results are dropped. The checksum is unchanged."""
        out = self.out(run.topics, run.topic, run.doc)
        if not out.any():
            return run
        rows = np.flatnonzero(~out)
        topics, topic = _renumbered(run.topics, run.topic[rows])
        context = None if run.context is None else run.context[rows]
        about = (context, run.sha256, run.warnings, run.source)
        return Run(run.name, topics, topic, run.doc[rows], run.score[rows], *about)

    def cut(self, qrels: Qrels) -> Qrels:
        """Returns the judgments without excluded ones; topics without judgments are dropped. The checksum is new."""
        rows = np.flatnonzero(~self.out(qrels.topics, qrels.topic, qrels.doc))
        topics, topic = _renumbered(qrels.topics, qrels.topic[rows])
        checksum = sha256(f"{qrels.sha256}\n{self.sha256}".encode())
        return Qrels(qrels.edition, topics, topic, qrels.doc[rows], qrels.grade[rows], checksum)

    def check(self, qrels: Qrels) -> None:
        """Raises HarnessError if the rule `later` is used and a topic or document of the judgments has no position."""
        if "later" not in self.rules:
            return
        if lacking := [topic for topic in qrels.topics if np.isnan(self._place_of(topic))]:
            such = counted_text(len(lacking), "such topic")
            raise HarnessError(f"topic {lacking[0]!r} has no place in the order ({such})")
        if (lost := np.isnan(self._places_of(qrels.doc))).any():
            first = qrels.doc[int(lost.argmax())].decode()
            many = counted_text(int(np.count_nonzero(lost)), "such judgment")
            raise HarnessError(f"judged document {first!r} has no place in the order ({many})")

    def _place_of(self, topic: str) -> float:
        return (self.places if self.topic_places is None else self.topic_places).get(topic, np.nan)

    @cached_property
    def _ordered(self) -> tuple[Ids, Floats]:
        """Documents of the order, sorted by id, and their positions."""
        ids = np.array([name.encode() for name in self.places], dtype=np.bytes_)
        order = np.argsort(ids)
        return ids[order], np.array(list(self.places.values()), dtype=np.float64)[order]

    def _places_of(self, docs: Ids) -> Floats:
        """Returns the position of each document; NaN, for which comparisons are false, for those without one."""
        ids, place = self._ordered
        if not ids.size:
            return np.full(docs.size, np.nan)
        row = np.minimum(np.searchsorted(ids, docs), ids.size - 1)
        return np.where(ids[row] == docs, place[row], np.nan)

    @cached_property
    def _hashes(self) -> npt.NDArray[np.uint64]:
        pairs = [(topic, doc.encode()) for topic, docs in self.listed.items() for doc in docs]
        topics = tuple(self.listed)
        index = {name: at for at, name in enumerate(topics)}
        topic = np.array([index[name] for name, _ in pairs], dtype=np.int32)
        return np.sort(pair_hashes(topics, topic, np.array([doc for _, doc in pairs], dtype=np.bytes_)))

    def _listed_pairs(self, topics: Sequence[str], topic: npt.NDArray[np.integer[Any]], docs: Ids) -> Bools:
        out = np.zeros(docs.size, dtype=bool)
        if not self._hashes.size:
            return out
        # Unequal pairs may have equal hashes, so each candidate is verified by its ids.
        same: Index = np.flatnonzero(np.isin(pair_hashes(tuple(topics), topic.astype(np.int32), docs), self._hashes))
        for row in same.tolist():
            out[row] = docs[row].decode() in self.listed.get(topics[topic[row]], ())
        return out


def rules(key: str, value: object) -> tuple[Rule, ...]:
    """Parses a configuration key of rules (one, a list or none) to distinct rules in a fixed order.

    Raises
    ------
    HarnessError
        A value is not a rule.

    Examples
    --------
    >>> rules("exclude", ["later", "own"]), rules("exclude", "listed"), rules("exclude", None)
    (('own', 'later'), ('listed',), ())
    """
    given = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list | tuple) or (unknown := [each for each in given if each not in RULES]):
        wrong = value if not isinstance(given, list | tuple) else unknown[0]
        raise HarnessError(f"key {key!r} is {wrong!r}, expected {', '.join(RULES)}, or a list of them")
    return tuple(rule for rule in RULES if rule in given)


def in_words(named: Iterable[Rule]) -> str:
    """Describes rules in a sentence for reports; empty without rules.

    Examples
    --------
    >>> in_words(("own",))
    "The document whose id is the topic's: taken from runs before ranks are counted, and from judgments."
    """
    what = "; ".join(IN_WORDS[rule] for rule in named)
    return f"{capitalised(what)}: taken from runs before ranks are counted, and from judgments." if what else ""


def _renumbered(
    topics: Sequence[str], topic: npt.NDArray[np.integer[Any]]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Returns the remaining topics in order, and the index into them."""
    left = np.unique(topic)
    return tuple(topics[at] for at in left.tolist()), np.searchsorted(left, topic).astype(np.int32)
