"""Scores runs against judgments under a protocol.

The order of operations is fixed: apply exclusions, sort, cut at the protocol's depth, map to keys and de-duplicate,
sort again by the tie rule of scoring, remove unjudged documents if prime (which keeps the order), cut at each measure's
k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

from harness.data.columns import Bools, Floats, Ids, Index
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, system_raised
from harness.scoring.lookup import JudgedCandidates, JudgmentTable
from harness.scoring.measures import parse_measures
from harness.scoring.protocol import Exclusions, Protocol, Ties
from harness.scoring.rankings import (
    Judged,
    Measure,
    Preference,
    Ranked,
    as_single,
    by_score,
    ideal_ranking,
    preferred,
    rank_in_topic,
    sort,
    tied,
)
from harness.scoring.scores import Scores

Order = Literal["given", "worst", "best"]
SAME = 1e-12  # means closer than this are equal
NO_KEY = b"\x01"  # no id has this byte
POOLED = -2  # in place of the index of a judgment with a negative grade: in the pool and not judged, as in trec_eval


@dataclass(frozen=True)
class Ranking:
    """Ranking of one topic: sorted, cut at the depth, de-duplicated; unjudged documents are kept.

    Attributes
    ----------
    docs : the first documents (keys if the protocol de-duplicates).
    ranks : retrieved relevant document -> its rank, from 1.
    judged : the first judged documents -> their ranks, in order.
    """

    docs: tuple[str, ...]
    ranks: Mapping[str, int]
    judged: Mapping[str, int]


@dataclass(frozen=True)
class _Results:
    """A run's results before tied ones are ordered, which all orders of them share.

    Attributes
    ----------
    rows : by topic and score, tied ones in the order of the file.
    places : places in `rows` of the tied ones.
    ties : number of tied results.
    unjudged : number of results that `rows` lacks, because they are not judged and no measure needs them.
    found : the judgment of each result of the run, or -1.
    """

    rows: Index
    places: Index
    ties: int
    unjudged: int
    found: Callable[[], Index]


class Scorer:
    """Scorer of runs: judgments and a protocol, preprocessed once for many runs.

    Parameters
    ----------
    keys : document -> de-duplication key (formula id -> visual id), used if the protocol de-duplicates. Documents
        without a key count as not judged, whatever their id; without `keys`, documents are keys already.
    measures : measures that replace the protocol's.
    exclusions : data for the protocol's key `exclude`; not needed for `own`. The attribute `qrels` then has no excluded
        judgments.
    """

    def __init__(
        self,
        qrels: Qrels,
        protocol: Protocol,
        *,
        collection: str = "",
        keys: Mapping[str, str] | None = None,
        measures: Sequence[str] | None = None,
        exclusions: Exclusions | None = None,
    ) -> None:
        self.protocol = protocol
        self.collection = collection
        self._parsed = parse_measures(measures if measures is not None else protocol.measures)
        if not self._parsed:
            raise HarnessError(f"protocol {protocol.name}: no measures to score")
        self.measures = tuple(str(measure) for measure in self._parsed)
        self._keys = None if keys is None else {doc.encode(): key.encode() for doc, key in keys.items()}
        # Candidates are those of the full judgments, even if some are excluded or missing from a corpus.
        self._candidates = JudgedCandidates(qrels) if protocol.candidates == "judged" else None
        self.exclusions = _exclusions(protocol, exclusions)
        self._refuses = True
        self._cut: dict[str, int] = {}
        if self.exclusions is not None:
            left = self.exclusions.cut(qrels)
            if len(qrels) and not len(left):
                raise HarnessError(f"protocol {protocol.name}: excludes all documents that are judged")
            self._cut = {
                "judgments excluded": len(qrels) - len(left),
                "topics without judgments left": len(qrels.topics) - len(left.topics),
            }
            qrels = left
        self._take(qrels)

    def _take(self, qrels: Qrels) -> None:
        """Preprocesses judgments."""
        self.qrels = qrels
        self._topics = {topic: index for index, topic in enumerate(qrels.topics)}
        below = qrels.grade < 0
        self._pooled = below if below.any() else None
        self._gain = np.where(below, 0.0, self.protocol.gain_of(qrels.grade))
        self._relevant = qrels.grade >= self.protocol.relevant_from
        self._table = JudgmentTable(qrels)
        self._judged = self._judgments()

    def _judgments(self) -> Judged:
        """Returns what the judgments say of each topic."""
        topic, topics = self.qrels.topic, len(self.qrels.topics)
        positive, judged = (np.bincount(topic[of], minlength=topics) for of in (self._relevant, self.qrels.grade >= 0))
        return Judged(positive, judged - positive, ideal_ranking(topic, self._gain, self._relevant, topics))

    def _find(self, run: Run, of_run: Index) -> Index:
        """Returns the index of each result's judgment, -1 without one, POOLED for one with a negative grade."""
        judgment = self._table.find(run, of_run)
        if self._pooled is None:
            return judgment
        return np.where(self._pooled[judgment] & (judgment >= 0), POOLED, judgment)

    def on_part(self, qrels: Qrels) -> Scorer:
        """Returns a scorer for part of the judgments, such as those of documents in a corpus.

        Topics without relevant documents in this part are left out of means, because no system could find any; the
        protocol's name then ends in `-partial`.
        """
        protocol = self.protocol
        if protocol.no_relevant != "skip":
            protocol = replace(protocol, name=f"{protocol.name}-partial", no_relevant="skip")
        return self.on(qrels, protocol)

    def on(self, qrels: Qrels, protocol: Protocol | None = None) -> Scorer:
        """Returns a scorer for other judgments, under the same protocol unless another is given."""
        if self.exclusions is not None and self.exclusions.out(qrels.topics, qrels.topic, qrels.doc).any():
            qrels = self.exclusions.cut(qrels)  # new judgments may include excluded pairs
        out = copy(self)
        out.protocol = protocol or self.protocol
        out._take(qrels)
        return out

    def without_refusals(self) -> Scorer:
        """Returns a scorer by which a run without a judged topic scores 0; its refusal would tell private judgments."""
        out = copy(self)
        out._refuses = False
        return out

    def __call__(self, run: Run) -> Scores:
        """Scores one run. Raises HarnessError if it has no topic in common with the judgments."""
        kept = self._kept(run)
        scores = self._score(kept, "given")
        if self.exclusions is None:
            return scores
        counts = {"results excluded": len(run) - len(kept), **self._cut}
        if lacking := self.exclusions.without_place(kept.doc):
            counts["results without a place in the order"] = lacking
        return replace(scores, counts={**scores.counts, "results": len(run), **counts})

    def _kept(self, run: Run) -> Run:
        """Returns the run without excluded results. Raises HarnessError if no result remains."""
        if self.exclusions is None:
            return run
        kept = self.exclusions.kept(run)
        if not len(kept):
            raise HarnessError(f"run {run.name}: protocol {self.protocol.name} excludes all of its results")
        return kept

    def tie_bounds(self, run: Run) -> tuple[Scores, Scores]:
        """Returns the worst and the best scores over all orders of the run's tied results.

        Includes only measures with known bounds (`Measure.tie_bounds`): not Judged@k, nor those of ir_measures. The
        bounds are always attained by some order. No order exceeds them, except in two cases: a tie crosses the depth,
        and documents are de-duplicated or (for nDCG) the ideal ranking is of retrieved documents; or `ties_deduplicate`
        is `reference` and `ties` is `file` (equal 32-bit scores of one key may differ in 64 bits).
        """
        kept = self._kept(run)
        results = self._results(kept, self._of_run(kept), [measure for measure in self._parsed if measure.tie_bounds])
        return self._score(kept, "worst", results), self._score(kept, "best", results)

    def tie_spans(self, run: Run, scores: Scores) -> dict[str, tuple[float, float]]:
        """Returns measure -> lowest and highest mean over orders of tied results, if known and different."""
        if not scores.counts["tied results"] or not any(measure.tie_bounds for measure in self._parsed):
            return {}
        worst, best = self.tie_bounds(run)
        spans = {name: (worst.aggregate(name), best.aggregate(name)) for name in worst.measures}
        return {name: span for name, span in spans.items() if span[1] - span[0] > SAME}

    def rankings(self, run: Run, first: int = 20) -> dict[str, Ranking]:
        """Returns topic -> ranking, for judged topics that the run answers, with at most `first` documents per list.

        Raises HarnessError if the run has no topic in common with the judgments.
        """
        run = self._kept(run)
        of_run = self._of_run(run)
        rows, judgments, _ = self._ordered(run, of_run, self._results(run, of_run), "given", graded=False)
        topic = of_run[run.topic[rows]]
        rank = rank_in_topic(topic)
        docs: dict[int, list[str]] = {}
        for place in np.flatnonzero(rank < first).tolist():
            docs.setdefault(int(topic[place]), []).append(self.key(run.doc[rows[place]].decode()))
        judged = np.flatnonzero(judgments >= 0)
        leading = judged[rank_in_topic(topic[judged]) < first]
        relevant = judged[self._relevant[judgments[judged]]]
        ranks, firsts = (self._ranks(topic[part], judgments[part], rank[part]) for part in (relevant, leading))
        return {
            self.qrels.topics[t]: Ranking(tuple(names), ranks.get(t, {}), firsts.get(t, {}))
            for t, names in docs.items()
        }

    def _ranks(self, topic: Index, judgments: Index, rank: Index) -> dict[int, dict[str, int]]:
        """Returns topic -> judged document -> rank from 1, in the order given."""
        names, places = [self.qrels.doc_names[row] for row in judgments.tolist()], (rank + 1).tolist()
        first = np.flatnonzero(np.diff(topic, prepend=-1)).tolist()
        return {
            int(topic[start]): dict(zip(names[start:end], places[start:end], strict=True))
            for start, end in pairwise([*first, topic.size])
        }

    def key(self, doc: str) -> str:
        """Returns the id of a document in the judgments: its de-duplication key, or its own id."""
        return self._key(doc.encode()).removeprefix(NO_KEY).decode() if self.protocol.deduplicate else doc

    def _key(self, doc: bytes) -> bytes:
        # Ids and keys may be numbers in the same range: a document without a key must not match a key.
        return doc if self._keys is None else self._keys.get(doc, NO_KEY + doc)

    def _of_run(self, run: Run) -> Index:
        """Returns each topic of the run as an index into the judgments' topics, -1 if not judged."""
        if self._candidates is not None:
            self._candidates.check(run)
        of_run = np.array([self._topics.get(topic, -1) for topic in run.topics], dtype=np.int64)
        if self._refuses and (of_run < 0).all():
            known = ", ".join(self.qrels.topics[:3])
            raise HarnessError(
                f"run {run.name}: none of its topics ({', '.join(run.topics[:3])}, ...) is judged ({known}, ...)"
            )
        return of_run

    def _score(self, run: Run, order: Order, results: _Results | None = None) -> Scores:
        of_run = self._of_run(run)
        columns = {}
        counts: dict[str, int] = {}
        wanted = [measure for measure in self._parsed if order == "given" or measure.tie_bounds]
        results = results or self._results(run, of_run, wanted)
        for graded in sorted({measure.graded for measure in wanted}) if order != "given" else [False]:
            ranked, primed, counts = self._rankings_and_counts(run, of_run, results, order, graded)
            judged = self._judged if self.protocol.ideal == "judged" else self._retrieved(ranked)
            for measure in wanted:
                if order != "given" and measure.graded != graded:
                    continue
                level = measure.relevant_from
                if level is None or level == self.protocol.relevant_from:
                    taken = ranked if measure.diagnostic and not measure.primed else primed
                    columns[measure] = self._column(measure, taken, judged, of_run)
                else:
                    columns[measure] = self._with_threshold(level, measure)._score(run, order, results).values[:, 0]
        answered = frozenset(run.topics)
        stacked = [columns[measure] for measure in wanted]
        return Scores(
            run.name,
            self.collection,
            self.qrels.edition,
            self.protocol,
            tuple(str(measure) for measure in wanted),
            self.qrels.topics,
            np.stack(stacked, axis=1) if stacked else np.empty((len(self.qrels.topics), 0)),
            self.qrels.sha256,
            run.sha256,
            counts,
            tuple(topic for topic in self.qrels.topics if topic not in answered),
        )

    def _with_threshold(self, level: float, measure: Measure) -> Scorer:
        """Returns a scorer for one measure with another relevance threshold."""
        out = copy(self)
        out.protocol = replace(self.protocol, relevant_from=level)
        out._parsed = (measure,)
        out._relevant = self.qrels.grade >= level
        out._judged = out._judgments()
        return out

    def _column(self, measure: Measure, ranked: Ranked, judged: Judged, of_run: Index) -> Floats:
        """Returns a measure's values; NaN for topics that the protocol leaves out."""
        try:
            double = self.protocol.precision == "double"
            values = ((double and measure.double) or measure.function)(ranked, judged, measure.k)
        except HarnessError:
            raise
        except (Exception, SystemExit) as error:  # the measure may be from another package
            raise system_raised(f"measure {measure}", error) from error
        if np.shape(values) != (ranked.topics,):
            raise HarnessError(f"measure {measure}: values of shape {np.shape(values)}, expected {(ranked.topics,)}")
        wrong = f"measure {measure}: gave a value that is infinite or complex, expected finite numbers"
        if np.iscomplexobj(values):
            raise HarnessError(wrong)
        try:
            out = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise HarnessError(f"measure {measure}: values are not numbers") from None
        if np.isinf(out).any():
            raise HarnessError(wrong)
        if self.protocol.topics == "answered":
            missing = np.ones(ranked.topics, dtype=bool)
            missing[of_run[of_run >= 0]] = False
            out[missing] = np.nan
        if self.protocol.no_relevant == "skip" and measure.needs_relevant:
            without_gain = self._judged.ideal.total(self._judged.ideal.judged) == 0
            out[without_gain if measure.graded else self._judged.relevant == 0] = np.nan
        return out

    def _results(self, run: Run, of_run: Index, measures: Sequence[Measure] | None = None) -> _Results:
        """Sorts a run's results by topic and score; `measures` are those that they are for, None: all are needed."""
        protocol = self.protocol
        before, after = protocol.tie_rules

        @cache
        def judgments() -> Index:
            return self._find(self._keyed(run) if protocol.deduplicate else run, of_run)

        rows, places = by_score(run.topic, of_run, run.score, single=self._single(before))
        ties = places.size
        if before == "file" and self._single(after):  # count ties by the coarser rule
            ties = int(np.count_nonzero(tied(of_run[run.topic[rows]], as_single(run.score[rows]))))
        needed = measures is None or any(measure.diagnostic for measure in measures)
        if not protocol.prime or needed or protocol.deduplicate or self._is_cut(run):
            return _Results(rows, places, ties, 0, judgments)
        # Unjudged results would be removed later, and have no effect before that.
        judged = judgments()[rows] >= 0
        if judged.all():
            return _Results(rows, places, ties, 0, judgments)
        member = np.zeros(rows.size, dtype=bool)
        member[places] = True
        kept = rows[judged]
        return _Results(kept, np.flatnonzero(member[judged]), ties, rows.size - kept.size, judgments)

    def _single(self, rule: Ties) -> bool:
        """Returns whether a tie rule compares scores as 32-bit floats."""
        return rule == "reference" and self.protocol.precision == "single"

    def _is_cut(self, run: Run) -> bool:
        """Returns whether any ranking may be longer than the protocol's depth."""
        depth = self.protocol.depth
        return depth is not None and len(run) > depth and int(np.bincount(run.topic).max()) > depth

    def _rankings_and_counts(
        self, run: Run, of_run: Index, results: _Results, order: Order, graded: bool
    ) -> tuple[Ranked, Ranked, dict[str, int]]:
        """Returns the rankings before and after unjudged documents are removed, and statistics of the run."""
        rows, found_here, seen = self._ordered(run, of_run, results, order, graded)
        topic = of_run[run.topic[rows]]
        answered = len(set(of_run.tolist()) - {-1})
        counts = {
            "results": len(run),
            "topics answered": answered,
            "topics missing": len(self.qrels.topics) - answered,
            "topics without judgments": int((of_run < 0).sum()),
            "topics without relevant documents": int(np.count_nonzero(self._judged.relevant == 0)),
            **seen,
        }
        judged = found_here >= 0
        ranked = self._ranked(topic, rank_in_topic(topic), found_here, judged)
        unjudged = int(judged.size - np.count_nonzero(judged))
        counts["results without judgment"] = unjudged + results.unjudged
        if not self.protocol.prime or not unjudged:
            return ranked, ranked, counts
        kept = topic[judged]
        return ranked, self._ranked(kept, rank_in_topic(kept), found_here[judged], judged[judged]), counts

    def _ordered(
        self, run: Run, of_run: Index, results: _Results, order: Order, graded: bool
    ) -> tuple[Index, Index, dict[str, int]]:
        """Orders ties, cuts and de-duplicates; returns rows, indices of their judgments (-1: none), and statistics."""
        before, after = self.protocol.tie_rules
        rows, places, score = results.rows, results.places, run.score
        prefer = self._preference(before, order, graded, run.doc, results.found)
        if prefer is not None:
            of_tied = of_run[run.topic[rows[places]]]
            rows = preferred(rows, places, of_tied, score, prefer, single=self._single(before))
        counts = {"tied results": results.ties}
        if self.protocol.depth is not None:
            counts["results beyond the depth"] = 0
            if self._is_cut(run):
                within = rank_in_topic(of_run[run.topic[rows]]) < self.protocol.depth
                counts["results beyond the depth"] = int(within.size - np.count_nonzero(within))
                rows = rows[within]
        if not self.protocol.deduplicate:
            return rows, results.found()[rows], counts
        kept, keys, judgments, unmapped = self._deduplicated(run, of_run, rows)
        counts |= {"duplicates removed": int(rows.size - kept.size), "documents without a key": unmapped}
        topic = of_run[run.topic[kept]]
        in_file = np.lexsort((kept, topic))
        rows, places = sort(in_file, topic[in_file], score[kept], single=self._single(after))
        if (prefer := self._preference(after, order, graded, keys, lambda: judgments)) is not None:
            rows = preferred(rows, places, topic[rows[places]], score[kept], prefer, single=self._single(after))
        return kept[rows], judgments[rows], counts

    def _preference(
        self, rule: Ties, order: Order, graded: bool, ids: Ids, judgments: Callable[[], Index]
    ) -> Preference | None:
        """Returns a function for the sort key of tied results, descending; None for the order of the file."""
        if order != "given":
            sign = 1.0 if order == "best" else -1.0
            return lambda rows: sign * self._desirable(judgments()[rows], graded)
        if rule == "file":
            return None
        return lambda rows: np.unique(ids[rows], return_inverse=True)[1].astype(np.float64)

    def _ranked(self, topic: Index, rank: Index, judgments: Index, judged: Bools) -> Ranked:
        at = np.maximum(judgments, -1)  # POOLED need not be the place of a judgment
        gain, relevant = self._gain[at], self._relevant[at]
        if not judged.all():
            gain, relevant = np.where(judged, gain, 0.0), relevant & judged
        pooled = None if self._pooled is None else judgments == POOLED
        return Ranked(topic, rank, gain, relevant, judged, len(self.qrels.topics), pooled)

    def _desirable(self, judgments: Index, graded: bool) -> Floats:
        """Returns the preference for an early rank of each result; unjudged ones are better for Bpref."""
        if graded:
            return np.where(judgments >= 0, self._gain[judgments], 0.0)
        return np.where(judgments >= 0, np.where(self._relevant[judgments], 2.0, 0.0), 1.0)

    def _keyed(self, run: Run) -> Run:
        """Returns the run with keys instead of documents."""
        docs = [self._key(doc) for doc in run.doc.tolist()]
        return replace(run, doc=np.array(docs, dtype=np.bytes_), context=None)

    def _deduplicated(self, run: Run, of_run: Index, rows: Index) -> tuple[Index, Ids, Index, int]:
        """Returns rows with the first occurrence of a key, their keys and judgments, and the number without a key."""
        mapped = [self._key(doc) for doc in run.doc[rows].tolist()]
        first: dict[tuple[int, bytes], int] = {}
        for place, pair in enumerate(zip(run.topic[rows].tolist(), mapped, strict=True)):
            first.setdefault(pair, place)
        kept, keys = rows[list(first.values())], [key for _, key in first]
        table = replace(
            run, topic=run.topic[kept], doc=np.array(keys, dtype=np.bytes_), score=run.score[kept], context=None
        )
        shown = np.array([key.removeprefix(NO_KEY) for key in keys], dtype=np.bytes_)
        return kept, shown, self._find(table, of_run), sum(key.startswith(NO_KEY) for key in mapped)

    def _retrieved(self, ranked: Ranked) -> Judged:
        """Returns the same judgments with an ideal ranking of the retrieved documents only."""
        known = ranked.judged
        ideal = ideal_ranking(ranked.topic[known], ranked.gain[known], ranked.relevant[known], ranked.topics)
        return replace(self._judged, ideal=ideal)


def score_run(
    run: Run, qrels: Qrels, protocol: Protocol, *, collection: str = "", keys: Mapping[str, str] | None = None
) -> Scores:
    """Scores one run; for many runs on the same judgments, create a `Scorer`."""
    return Scorer(qrels, protocol, collection=collection, keys=keys)(run)


def _exclusions(protocol: Protocol, given: Exclusions | None) -> Exclusions | None:
    """Returns the exclusions restricted to the protocol's rules; None without rules."""
    if not protocol.exclude:
        return None
    if given is None and set(protocol.exclude) - {"own"}:
        raise HarnessError(
            f"protocol {protocol.name}: excludes {' and '.join(protocol.exclude)}, and nothing says which documents "
            "these are; an edition of a collection names the files"
        )
    return Exclusions(protocol.exclude) if given is None else replace(given, rules=protocol.exclude)
