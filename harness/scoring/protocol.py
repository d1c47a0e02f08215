"""Exclusions: documents removed per topic from runs, before ranks are counted, and from judgments.

Protocols: all scoring decisions that affect a score and are often left out of papers. `scorer` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Ids, Index, pair_hashes
from harness.data.layouts import LARGEST_GRADE
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, capitalised, counted_text, gather, refuse, suggestion
from harness.io import checks, config
from harness.io.arguments import checked_arguments
from harness.io.files import sha256
from harness.scoring import measures as m

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


def exclusion_rules(key: str, value: object) -> tuple[Rule, ...]:
    """Parses a configuration key of rules (one, a list or none) to distinct rules in a fixed order.

    Raises
    ------
    HarnessError
        A value is not a rule.

    Examples
    --------
    >>> [exclusion_rules("exclude", value) for value in (["later", "own"], "listed", None)]
    [('own', 'later'), ('listed',), ()]
    """
    given = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list | tuple) or (unknown := [each for each in given if each not in RULES]):
        wrong = value if not isinstance(given, list | tuple) else unknown[0]
        raise HarnessError(f"key {key!r} is {wrong!r}, expected {', '.join(RULES)}, or a list of them")
    return tuple(rule for rule in RULES if rule in given)


def exclusions_in_words(named: Iterable[Rule]) -> str:
    """Describes rules in a sentence for reports; empty without rules.

    Examples
    --------
    >>> exclusions_in_words(("own",))
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


_LARGEST_EXPONENT = LARGEST_GRADE.bit_length() - 1
Ties = Literal["reference", "file"]
Gains = tuple[tuple[float, float], ...] | Literal["exponential"]


def _named(key: str, value: object) -> str:
    if not value:
        raise HarnessError(f"key {key!r} is missing")
    return checks.text(key, value)


def _measures(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and not value:
        raise HarnessError(f"key {key!r} is missing")
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise HarnessError(f"key {key!r} is {value!r}, expected a list such as [nDCG, AP, P@10]")
    try:
        return tuple(str(measure) for measure in m.parse_measures(str(measure) for measure in value))
    except HarnessError as error:
        raise HarnessError(f"key {key!r}: {error}") from None


def _gains(key: str, value: object) -> Gains:
    if value is None or value == "linear":
        return ()
    if value == "exponential":
        return "exponential"
    if isinstance(value, str):
        raise HarnessError(f"key {key!r} is {value!r}; {suggestion(value, ('linear', 'exponential'))}")
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        out = tuple(sorted((float(grade), float(gain)) for grade, gain in pairs))  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        expected = "expected grades and gains such as {2: 1.0, 1: 0.3}"
        raise HarnessError(f"key {key!r} is {value!r}, {expected}") from None
    if any(not 0 <= gain <= LARGEST_GRADE for _, gain in out):
        raise HarnessError(f"key {key!r} has a gain below 0, above {LARGEST_GRADE:,} or not finite")
    return out


def _depth(key: str, value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise HarnessError(f"key {key!r} is {value!r}, expected a whole number from 1, or null for all")
    return value


def _threshold(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
        raise HarnessError(f"key {key!r} is {value!r}, expected a grade above 0")
    return value


@dataclass(frozen=True)
class Protocol:
    """All decisions on how to compute scores from a run and judgments.

    Attributes
    ----------
    name, title : name in `conf/protocol/`, and short description.
    measures : default measures, such as `nDCG`, `AP`, `P@10`.
    depth : results considered per topic; None for all.
    prime : whether unjudged documents are removed before scoring.
    gains : grade -> gain of nDCG, as pairs; grades not named keep their value. Empty (in a file also `linear`): gains
        are grades. `exponential`: 2^grade - 1 (Burges et al., ICML 2005).
    relevant_from : the lowest grade that counts as relevant for binary measures.
    ideal : whether the ideal ranking consists of all judged documents or of those retrieved by the run.
    ties : order of tied results when they are scored. `reference` is trec_eval's (score descending, in the protocol's
        `precision`, then document id, or key, descending); `file` keeps the file's order among equal 64-bit scores.
    deduplicate : whether documents are mapped to keys (formula -> visual id) and only the first result of a key kept.
    ties_deduplicate : order of tied results when `depth` and `deduplicate` are applied; None: as `ties`.
    topics : whether means are over all topics of the edition (a missing one counts 0) or the answered ones.
    no_relevant : whether a topic without relevant documents counts 0 or is left out, for each measure separately.
    exclude : documents removed per topic from runs, before ranks are counted, and from judgments: `own` (its id is the
        topic's), `listed` (by the collection, for each topic), `later` (at or after the topic's position in the
        collection's order). See `Exclusions`.
    candidates : what runs may rank: `any` document, or only documents `judged` for the topic, for re-ranking tasks with
        a fixed list; runs with other documents are refused.
    precision : `single`, as in trec_eval 9: `ties: reference` compares scores as 32-bit floats, and `IPrec` takes a
        recall of r as that of floor(r R + 0.9) of R relevant documents; `double`, as in trec_eval 10: 64-bit floats,
        and r R rounded to the nearest whole number.

    Examples
    --------
    >>> Protocol("mine", ("AP",), depth=100, prime=True).label("AP")
    'MAP′'
    """

    name: Annotated[str, _named]
    measures: Annotated[tuple[str, ...], _measures]
    title: str = ""
    depth: Annotated[int | None, _depth] = 1000
    prime: bool = False
    gains: Annotated[Gains, _gains] = ()
    relevant_from: Annotated[float, _threshold] = 1.0
    ideal: Literal["judged", "retrieved"] = "judged"
    ties: Ties = "reference"
    deduplicate: bool = False
    ties_deduplicate: Ties | None = None
    topics: Literal["all", "answered"] = "all"
    no_relevant: Literal["zero", "skip"] = "zero"
    candidates: Literal["any", "judged"] = "any"
    exclude: Annotated[tuple[Rule, ...], exclusion_rules] = ()
    precision: Literal["single", "double"] = "single"

    def __post_init__(self) -> None:
        if self.exclude and self.deduplicate:
            reason = "exclude each other: what runs name and what is judged differ"
            raise HarnessError(f"keys 'exclude' and 'deduplicate: true' {reason}")

    def label(self, measure: str) -> str:
        """Returns the name of a measure's mean in papers: `AP` -> `MAP′`, `nDCG@10` -> `nDCG′@10`."""
        return m.label(measure, prime=self.prime)

    def gain_of(self, grade: Floats) -> Floats:
        """Returns the gains of grades, shape (judgments,); raises HarnessError for a grade too large for 2^grade."""
        if self.gains == "exponential":
            if (largest := float(grade.max(initial=0.0))) > _LARGEST_EXPONENT:
                raise HarnessError(
                    f"protocol {self.name}: grade {largest:g} is above {_LARGEST_EXPONENT} for gains of 2^grade"
                )
            return np.exp2(grade) - 1.0
        gain = grade.copy()
        for old, new in self.gains:
            gain[grade == old] = new
        return gain

    def in_words(self) -> tuple[str, ...]:
        """Returns the whole protocol as sentences for a report."""
        depth = "All results count" if self.depth is None else f"The first {self.depth:,} results of a topic count"
        pairs = () if self.gains == "exponential" else self.gains
        gains = "2^grade - 1" if self.gains == "exponential" else ", ".join(f"{old:g} -> {new:g}" for old, new in pairs)
        first, last = self.tie_rules
        kept = "Results are mapped to their keys and only the first of each key is kept"
        sentences = (
            "Runs rank fixed candidates: a result that is not judged for its topic is refused."
            if self.candidates == "judged"
            else "",
            f"{depth}; {self._ties_in_words(first, 'document id')}.",
            f"{kept}; then {self._ties_in_words(last, 'key')}." if self.deduplicate else "",
            exclusions_in_words(self.exclude),
            "Documents without a judgment are removed before scoring (prime)."
            if self.prime
            else "Documents without a judgment count as not relevant.",
            f"Gains of nDCG: {gains}." if gains else "Gains of nDCG are the grades.",
            f"Binary measures count grades from {self.relevant_from:g} up as relevant.",
            "The ideal ranking is made of all judged documents."
            if self.ideal == "judged"
            else "The ideal ranking is made of the judged documents that the run retrieved.",
            "Means are over all topics of the edition; a topic that a run does not answer counts 0."
            if self.topics == "all"
            else "Means are over the topics that the run answers.",
            "A topic without relevant documents counts 0."
            if self.no_relevant == "zero"
            else "A topic without relevant documents is left out of a measure's mean.",
        )
        return tuple(sentence for sentence in sentences if sentence)

    def _ties_in_words(self, rule: Ties, ids: str) -> str:
        if rule == "file":
            return "equal scores keep the order of the file"
        version, bits = ("9", 32) if self.precision == "single" else ("10", 64)
        return f"ties are in the order of trec_eval {version} ({bits}-bit score, then {ids}, both descending)"

    @property
    def tie_rules(self) -> tuple[Ties, Ties]:
        """Tie rules before de-duplication, and for scoring."""
        return (self.ties_deduplicate or self.ties) if self.deduplicate else self.ties, self.ties

    @staticmethod
    def from_config(mapping: Mapping[str, Any], where: str) -> Protocol:
        """Returns a protocol from its configuration, after validating all keys and values.

        Raises
        ------
        HarnessError
            Keys are unknown, missing or wrong; the message lists all of them, one per line.
        """
        faults: list[str] = []
        with gather(faults):
            protocol = checks.typed(Protocol, mapping, where)
        if mapping.get("ties_deduplicate") is not None and not mapping.get("deduplicate"):
            faults.append(f"{where}: key 'ties_deduplicate' has no use without 'deduplicate: true'")
        if mapping.get("candidates") == "judged" and mapping.get("deduplicate"):
            faults.append(f"{where}: keys 'candidates: judged' and 'deduplicate: true' exclude each other")
        refuse(faults)
        return protocol


@checked_arguments
def telling(protocol: Protocol) -> str:
    """Returns why scores by a protocol reveal private judgments whatever the measure, in one line; else empty."""
    if protocol.topics != "all":
        reason = "means over answered topics only would reveal the score of a topic"
        return f"protocol {protocol.name}: {reason}; choose one with 'topics: all'"
    if protocol.candidates == "judged":
        reason = "it refuses runs with documents that are not judged, which reveals those that are"
        return f"protocol {protocol.name}: {reason}; choose one with 'candidates: all'"
    return ""


def load_protocol(name: str) -> Protocol:
    """Returns a protocol of `conf/protocol/` by name.

    Raises
    ------
    HarnessError
        Unknown name, or a key of its configuration that is unknown, missing or wrong.

    Examples
    --------
    >>> load_protocol("crossmath").in_words()[0]
    'All results count; ties are in the order of trec_eval 9 (32-bit score, then document id, both descending).'
    """
    mapping, where = config.read("protocol", name)
    faults: list[str] = []
    with gather(faults):
        protocol = Protocol.from_config(mapping, where)
    if mapping.get("name", name) != name:
        faults.insert(0, f"{where}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    refuse(faults)
    return protocol
