"""Rank fusion: several runs on the same topics made into one.

`gather` puts runs side by side, the functions after it give each (topic, document) a score, `to_run` sorts. Results do
not depend on the order of lines in files nor, where no weights distinguish the runs, on the order of the runs.
IBC, WIBC and RBC are ensembles of the MIRMU and MSM teams at ARQMath 2022 (Section 3.6 of their paper). What it leaves
open is decided here, and said in the docstrings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import config
from harness.collections.corpus import Corpus
from harness.columns import Bools, Floats, Index
from harness.errors import HarnessError, suggestion
from harness.files import read_bytes, sha256
from harness.measures import discounts
from harness.systems import MARK, Pool, check_cycle, load_system, reads, trains_without
from harness.topics import Topics
from harness.trec import Ids, Qrels, Run, pair_hashes, read_run

DEPTH = 1000
NORMALIZATIONS = ("min-max", "z-score", "sum", "none")
MISSING = ("zero", "minimum")
_TIE = 0.4  # of one rank: less than the half rank by which two medians may differ
_LARGEST = 1e38  # about what 32-bit floats can hold
_EVEN = 1e-12  # of the total weight: halves closer than this are equal


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the runs retrieved: one row for each (topic, document), sorted by topic, then document.

    Attributes
    ----------
    topics, docs : distinct ids, ascending. `docs` has shape (documents,).
    topic, doc : int64, shape (pairs,). Indices into `topics` and `docs`.
    rank : float64, shape (pairs, runs). From 1; infinite where the run did not retrieve the document.
    score : float64, shape (pairs, runs). The runs' own scores; NaN where not retrieved.
    depth : results of each topic that count. What a run did not retrieve has this rank in IBC, WIBC and RBC.
    """

    topics: tuple[str, ...]
    docs: Ids
    topic: Index
    doc: Index
    rank: Floats
    score: Floats
    depth: int

    def ratings(self) -> Floats:
        """Ranks as MIRMU counts them, (depth - rank) / depth: 0 for what was not retrieved. Shape (pairs, runs)."""
        return np.asarray((self.depth - np.minimum(self.rank, self.depth)) / self.depth)

    def find(self, qrels: Qrels) -> Index:
        """The row of each judgment, -1 where no run retrieved the document. Shape (judgments,)."""
        topics = {topic: index for index, topic in enumerate(self.topics)}
        docs = {doc: index for index, doc in enumerate(self.docs.tolist())}
        topic = np.array([topics.get(name, -1) for name in qrels.topics], dtype=np.int64)[qrels.topic]
        doc = np.array([docs.get(name, -1) for name in qrels.doc.tolist()], dtype=np.int64)
        pair, wanted = self.topic * len(docs) + self.doc, topic * len(docs) + doc
        row = np.minimum(np.searchsorted(pair, wanted), pair.size - 1)
        return np.where((topic >= 0) & (doc >= 0) & (pair[row] == wanted), row, -1)


Score = Callable[[Candidates], Floats]


def gather(runs: Sequence[Run], depth: int = DEPTH) -> Candidates:
    """Put runs side by side.

    Ranks follow trec_eval's order, as in scoring: score as 32-bit float descending, then document id descending.
    Results below `depth` are left out. A topic that a run does not answer is one where it retrieved nothing.
    Raises HarnessError if the runs hold no results at all.
    """
    if not sum(len(run) for run in runs):
        raise HarnessError("fusion: the runs to fuse hold no results")
    topics = sorted({run.topics[t] for run in runs for t in np.flatnonzero(np.bincount(run.topic))})
    docs = sorted({doc for run in runs for doc in run.doc.tolist()})
    topic_at = {name: index for index, name in enumerate(topics)}
    doc_at = {name: index for index, name in enumerate(docs)}
    columns = []
    for run in runs:
        topic = np.array([topic_at.get(name, -1) for name in run.topics], dtype=np.int64)[run.topic]
        doc = np.fromiter(map(doc_at.__getitem__, run.doc.tolist()), np.int64, len(run))
        with np.errstate(over="ignore"):
            order = np.lexsort((-doc, -run.score.astype(np.float32), topic))
        rank = _positions(topic[order]) + 1
        kept = order[rank <= depth]
        columns.append((topic[kept] * len(docs) + doc[kept], rank[rank <= depth], run.score[kept]))
    pair = np.sort(np.concatenate([column[0] for column in columns]))
    pair = pair[np.concatenate(([True], pair[1:] != pair[:-1]))]
    ranks, scores = np.full((pair.size, len(runs)), np.inf), np.full((pair.size, len(runs)), np.nan)
    for index, (pairs, rank, score) in enumerate(columns):
        row = np.searchsorted(pair, pairs)
        ranks[row, index], scores[row, index] = rank, score
    names = np.array(docs, dtype=np.bytes_)
    return Candidates(tuple(topics), names, pair // len(docs), pair % len(docs), ranks, scores, depth)


def to_run(candidates: Candidates, score: Floats, name: str) -> Run:
    """The run that a score for each candidate (shape (pairs,)) makes: the best `depth` documents of each topic.

    Equal scores come in descending order of document ids, as trec_eval has them. Scores that differ by less than a
    32-bit float can show are moved apart by its smallest step, so that trec_eval sees the order that is meant.
    The run has no checksum (it has no file) and no posts of formulas. Raises HarnessError if a score is too large.
    """
    if not (np.abs(score) < _LARGEST).all():
        raise HarnessError(f"run {name}: fused scores are {_LARGEST:g} or more; normalize the scores of the runs")
    # Reversed, so that the stable sort leaves equal scores in descending order of documents.
    order = score.size - 1 - np.lexsort((-score[::-1], candidates.topic[::-1]))
    order = order[_positions(candidates.topic[order]) < candidates.depth]
    topic = candidates.topic[order]
    doc = candidates.docs[candidates.doc[order]]
    return Run(name, candidates.topics, topic.astype(np.int32), doc, _distinct(topic, score[order]))


def fuse(runs: Sequence[Run], score: Score, name: str, depth: int = DEPTH) -> Run:
    """Fuse runs by one of the functions below: `fuse(runs, rrf, "rrf")`, `fuse(runs, partial(rrf, k=10), "rrf10")`."""
    candidates = gather(runs, depth)
    return to_run(candidates, score(candidates), name)


def rrf(candidates: Candidates, k: float = 60) -> Floats:
    """Reciprocal rank fusion: the sum of 1 / (k + rank) over the runs that retrieved the document.

    Cormack, Clarke and Buettcher (SIGIR 2009); Section 3.6.2, formula 2 of the MIRMU paper.
    """
    return _sum(1.0 / (k + candidates.rank))


def rank_biased_centroids(candidates: Candidates, phi: float = 0.9) -> Floats:
    """The sum of (1 - phi) phi^(rank - 1) over the runs that retrieved the document.

    Bailey, Moffat, Scholer and Thomas (SIGIR 2017), who call it RBC; here RBC is MIRMU's regression. With `phi` a
    reader looks at 1 / (1 - phi) results of each run on average; the default is ours.
    """
    return _sum((1.0 - phi) * phi ** (candidates.rank - 1.0))


def ibc(candidates: Candidates, seed: int = 0) -> Floats:
    """MIRMU's IBC: (N - M) / N with M the median rank over all runs, N the depth and the rank of the unretrieved.

    The median of an even number of ranks is the mean of the two in the middle. Documents of one median are ordered by
    one of their own ratings (see `Candidates.ratings`), drawn uniformly: it is added to the score as less than half a
    rank. The draw depends on seed, topic and document alone. What is still tied stays so, and `to_run` orders it by
    id; among runs that share few results that is most, since what fewer than half of them retrieved has the median N.
    """
    return wibc(candidates, [1.0] * candidates.rank.shape[1], seed)


def wibc(candidates: Candidates, weights: Sequence[float], seed: int = 0) -> Floats:
    """MIRMU's WIBC: IBC with the weighted median, and ties broken by a rating drawn by the runs' weights.

    The weighted median is the rank at which the weights of the better-ranked runs reach half of the total; if they
    reach it exactly, the mean of that rank and the next one, so that equal weights give IBC. (In the authors' library,
    pv211-utils, weights are added up in the order of the systems, not of the ranks.) The paper does not say what the
    weights are; `Fusion` takes the runs' nDCG' on training topics. `weights`: one for each run, from 0, not all 0.
    """
    ranks = np.minimum(candidates.rank, candidates.depth)
    order = np.argsort(ranks, axis=1, kind="stable")
    reached = np.cumsum(np.asarray(weights, dtype=np.float64)[order], axis=1)
    total = math.fsum(weights)

    def first(flags: Bools) -> Floats:
        place = np.take_along_axis(order, flags.argmax(axis=1)[:, None], axis=1)
        return np.take_along_axis(ranks, place, axis=1)[:, 0]

    low, high = first(reached >= total * (0.5 - _EVEN)), first(reached > total * (0.5 + _EVEN))
    drawn = first(reached > total * _uniform(candidates, seed)[:, None])
    n = candidates.depth
    return (n - (low + high) / 2) / n + _TIE / n * (n - drawn) / n


def _uniform(candidates: Candidates, seed: int) -> Floats:
    """A number in [0, 1) for each candidate, from a hash of seed, topic and document (SplitMix64's finish)."""
    z = pair_hashes(candidates.topics, candidates.topic.astype(np.int32), candidates.docs[candidates.doc])
    z += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Floats = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)) / 2.0**32
    return out


def normalize(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """The runs' scores made comparable, topic by topic and run by run. Shape (pairs, runs).

    `normalization`: `min-max` ((s - min) / (max - min)), `z-score` ((s - mean) / standard deviation), `sum`
    ((s - min) / sum of all s - min; Montague and Aslam, CIKM 2001) or `none`. Where all scores are equal, each becomes
    1, 0 or 1 / n. `missing`: what a run gives documents that it did not retrieve, `zero`, as is usual (for z-scores
    that is its mean), or `minimum`, its lowest normalized score of the topic (0 if it does not answer the topic).
    """
    score = candidates.score
    starts = np.searchsorted(candidates.topic, np.arange(len(candidates.topics)))

    def over(reduce: np.ufunc, values: Floats) -> Floats:
        """One value for each topic and run, in the rows of the topic. Shape (pairs, runs)."""
        return np.asarray(reduce.reduceat(values, starts, axis=0), dtype=np.float64)[candidates.topic]

    def total(values: Floats) -> Floats:
        return over(np.add, np.nan_to_num(values))

    low, high = over(np.fmin, score), over(np.fmax, score)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        count = total((~np.isnan(score)).astype(np.float64))
        if normalization == "min-max":
            out = np.where(high == low, 1.0, (score - low) / (high - low))
        elif normalization == "z-score":
            distance = score - total(score) / count
            out = np.where(high == low, 0.0, distance / np.sqrt(total(distance**2) / count))
        elif normalization == "sum":
            out = np.where(high == low, 1.0 / count, (score - low) / total(score - low))
        else:
            out = score
    out = np.where(np.isnan(score), np.nan, out)
    return np.where(np.isnan(score), np.nan_to_num(over(np.fmin, out)) if missing == "minimum" else 0.0, out)


def combsum(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """The sum of the normalized scores (Fox and Shaw, TREC-2)."""
    return _sum(normalize(candidates, normalization, missing))


def combmnz(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """CombSUM times the number of runs that retrieved the document (Fox and Shaw, TREC-2)."""
    return np.asarray(combsum(candidates, normalization, missing) * np.isfinite(candidates.rank).sum(axis=1))


def interpolation(
    candidates: Candidates, weights: Sequence[float], normalization: str = "min-max", missing: str = "zero"
) -> Floats:
    """The sum of the normalized scores, each times its run's weight."""
    return _sum(normalize(candidates, normalization, missing) * np.asarray(weights, dtype=np.float64))


def rbc_fit(candidates: Candidates, qrels: Qrels, ridge: float = 1.0) -> Floats:
    """MIRMU's RBC: a regression that predicts the gain of judgments from the ranks that the runs gave.

    Ours: linear ridge regression on standardized ratings (see `Candidates.ratings`), the intercept not penalized,
    gains are grades. It learns from every judgment of the topics that a run answers, retrieved or not. `candidates`:
    the same systems' runs on training topics, in the order in which they will be fused; `ridge`: the penalty of the
    sum of squared coefficients, above 0. Returns the intercept, then the slope of each run's rating, shape (1 + runs,).
    Raises HarnessError if no judged topic is answered by any of the runs.
    """
    answered = np.isin(qrels.topics, candidates.topics)[qrels.topic]
    # Sorted, so that the order of the judgments' file does not move the last digit.
    order = np.lexsort((qrels.doc, np.array(qrels.topics)[qrels.topic]))
    order = order[answered[order]]
    if not order.size:
        raise HarnessError("fusion: none of the training judgments' topics is answered by the training runs")
    row, gain = candidates.find(qrels)[order], qrels.grade[order]
    features = np.where(row[:, None] >= 0, candidates.ratings()[row], 0.0)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # constant: its slope is 0
    z = (features - mean) / deviation
    slopes = np.linalg.solve(z.T @ z + ridge * np.eye(mean.size), z.T @ (gain - gain.mean())) / deviation
    return np.concatenate(([gain.mean() - mean @ slopes], slopes))


def rbc(candidates: Candidates, coefficients: Floats) -> Floats:
    """The gains that a regression (see `rbc_fit`) predicts."""
    return _sum(candidates.ratings() * coefficients[1:]) + float(coefficients[0])


def training_ndcg(run: Run, qrels: Qrels, depth: int = DEPTH) -> float:
    """A run's nDCG' over all judged topics: cut at depth, unjudged documents removed, gains are grades."""
    candidates = gather([run], depth)
    row = candidates.find(qrels)

    def dcg(rows: Index, key: Floats) -> Floats:
        rows = rows[np.lexsort((key[rows], qrels.topic[rows]))]
        place = _positions(qrels.topic[rows].astype(np.int64))
        gain = qrels.grade[rows] * discounts(len(qrels))[place]
        return np.bincount(qrels.topic[rows], gain, len(qrels.topics)).astype(np.float64)

    found = dcg(np.flatnonzero(row >= 0), candidates.rank[row, 0])
    best = dcg(np.arange(len(qrels)), -qrels.grade)
    values = np.divide(found, best, out=np.zeros(best.shape), where=best > 0)
    return math.fsum(values.tolist()) / len(qrels.topics)


# Each method's function and which of the system's parameters it takes; `rbc` takes coefficients that are learned.
METHODS: Mapping[str, tuple[Callable[..., Floats], tuple[str, ...]]] = {
    "rrf": (rrf, ("k",)),
    "ibc": (ibc, ("seed",)),
    "wibc": (wibc, ("weights", "seed")),
    "rbc": (rbc, ()),
    "rank-biased-centroids": (rank_biased_centroids, ("phi",)),
    "combsum": (combsum, ("normalization", "missing")),
    "combmnz": (combmnz, ("normalization", "missing")),
    "interpolation": (interpolation, ("weights", "normalization", "missing")),
}


@dataclass(frozen=True)
class Fusion:
    """Runs of other systems, fused.

    Parameters
    ----------
    runs : run files, or names of systems in `conf/system/`, which then make their runs here; two or more. A file whose
        name is also a system's is written with its folder (`./overlap`).
    method : one of `METHODS`; the functions of the same names say what they do.
    k, phi, ridge : of `rrf` (from 0), of `rank-biased-centroids` (between 0 and 1), of `rbc` (above 0).
    normalization, missing : of `combsum`, `combmnz` and `interpolation`; see `normalize`.
    weights : of `wibc` and `interpolation`, one for each run, from 0. Without them, the runs' nDCG' on training topics.
    training_runs : for `rbc`, and where weights are not given: for each of `runs` the run file, or a list of run files
        (such as one a year), of the same system on the topics of the training judgments.
    seed : of the draws of `ibc` and `wibc`.
    depth : results of each topic taken from the runs, and returned.
    """

    runs: Sequence[str]
    method: str = "rrf"
    k: int = 60
    phi: float = 0.9
    normalization: str = "min-max"
    missing: str = "zero"
    weights: Sequence[float] | None = None
    ridge: float = 1.0
    training_runs: Sequence[str | Sequence[str]] | None = None
    seed: int = 0
    depth: int = DEPTH
    name: str = "fusion"

    def __post_init__(self) -> None:
        for key, choices in (("method", METHODS), ("normalization", NORMALIZATIONS), ("missing", MISSING)):
            if (value := getattr(self, key)) not in choices:
                raise HarnessError(f"key {key!r} is {value!r}; {suggestion(str(value), choices)}")
        n = len(self.runs) if _texts(self.runs) else 0
        weights = self.weights is None or _list(self.weights, n, lambda w: _number(w) and w >= 0)
        training = self.training_runs is None or _list(self.training_runs, n, lambda entry: _texts(_files(entry)))
        for key, right, expected in (
            ("runs", n > 1 and len(set(self.runs)) == n, "a list of two runs or more, each once"),
            ("k", self.k >= 0, "a whole number from 0"),
            ("phi", _number(self.phi) and 0 < self.phi < 1, "a number between 0 and 1"),
            ("ridge", _number(self.ridge) and self.ridge > 0, "a number above 0"),
            ("depth", self.depth >= 1, "a whole number from 1"),
            ("weights", weights and any(self.weights or [1]), f"{n} numbers from 0, not all 0"),
            ("training_runs", training, f"{n} run files, or lists of run files"),
        ):
            if not right:
                raise HarnessError(f"key {key!r} is {getattr(self, key)!r}, expected {expected}")
        if self.weights is not None and "weights" not in METHODS[self.method][1]:
            raise HarnessError(f"key 'weights' is of no use to {self.method}; wibc and interpolation take weights")

    def trains_without(self) -> frozenset[str] | None:
        """What the systems that make runs leave out in common."""
        for run in self.runs:
            check_cycle(run)
        return trains_without(load_system(run) for run in self.runs if run in config.names("system"))

    def reads(self) -> dict[str, Any]:
        """Checksums of the run files, and the systems that make the other runs."""
        for run in self.runs:
            check_cycle(run)
        files = [*self.runs, *(file for entry in self.training_runs or () for file in _files(entry))]
        systems = config.names("system")
        return {
            file: [config.load("system", file)[0], reads(load_system(file))]
            if file in systems
            else sha256(read_bytes(Path(file).expanduser()))
            for file in files
        }

    def __call__(
        self,
        topics: Topics,
        corpus: Corpus | None,
        workspace: Path,
        training: Qrels | None = None,
        pool: Pool | None = None,
    ) -> Run:
        """Read or make the runs and fuse them; with a pool, only its documents are ranked and fused.

        Raises HarnessError if a run is neither a file nor a system, or is fused from itself; if a method that learns
        lacks training judgments or training runs, or the judgments hold a topic that is to be ranked.
        """
        function, keys = METHODS[self.method]
        values = {key: getattr(self, key) for key in keys}
        leaked: frozenset[str] = frozenset()
        if self.method == "rbc" or ("weights" in keys and self.weights is None):
            learned, leaked = self._learn(topics, training)
            values |= learned
        for run in self.runs:
            check_cycle(run)
        systems = config.names("system")
        runs = []
        for run in self.runs:
            if run in systems:
                runs.append(load_system(run)(topics, corpus, workspace / run, training, pool))
            elif (path := Path(run).expanduser()).exists():
                runs.append(_within(read_run(path, known_topics=topics.ids()), pool))
            else:
                raise HarnessError(f"system {self.name}: {run}: no such file or system; {suggestion(run, systems)}")
        marked = leaked or any(run.name.endswith(MARK) for run in runs)
        fused = fuse(runs, partial(function, **values), self.name + (MARK if marked else ""), self.depth)
        return Run.from_dict(fused.name, fused.to_dict())  # checked as a file is

    def _learn(self, topics: Topics, training: Qrels | None) -> tuple[dict[str, Any], frozenset[str]]:
        """What the method lacks, learned from training judgments, and the topics of these that are to be ranked."""
        if training is None or self.training_runs is None:
            lacking = "training judgments" if training is None else "the key 'training_runs'"
            instead = "" if self.method == "rbc" else " (or the key 'weights')"
            raise HarnessError(f"system {self.name}: {self.method} needs {lacking}{instead}")
        shared = topics.ids() & set(training.topics)
        files = [[Path(file).expanduser() for file in _files(entry)] for entry in self.training_runs]
        runs = [_joined([read_run(file, name="training") for file in entry]) for entry in files]
        if self.method == "rbc":
            return {"coefficients": rbc_fit(gather(runs, self.depth), training, self.ridge)}, shared
        weights = [training_ndcg(run, training, self.depth) for run in runs]
        if not any(weights):
            raise HarnessError(f"system {self.name}: all training runs have an nDCG' of 0; give the key 'weights'")
        return {"weights": weights}, shared


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _list(value: object, n: int, right: Callable[[Any], bool]) -> bool:
    return isinstance(value, list | tuple) and len(value) == n and all(map(right, value))


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) and item for item in value)


def _files(entry: str | Sequence[str]) -> Sequence[str]:
    return [entry] if isinstance(entry, str) else entry


def _joined(runs: Sequence[Run]) -> Run:
    """Runs of one system on different topics as one run."""
    names = tuple(topic for run in runs for topic in run.topics)
    if len(set(names)) < len(names):
        raise HarnessError(
            f"key 'training_runs': two files of one run hold topic {Counter(names).most_common(1)[0][0]!r}"
        )
    before = np.cumsum([0, *(len(run.topics) for run in runs)])
    topic = np.concatenate([run.topic + start for run, start in zip(runs, before, strict=False)])
    doc, score = np.concatenate([run.doc for run in runs]), np.concatenate([run.score for run in runs])
    return Run(runs[0].name, names, topic.astype(np.int32), doc, score)


def _within(run: Run, pool: Pool | None) -> Run:
    """The results that are in the pool."""
    if pool is None:
        return run
    docs = [pool.get(topic, frozenset()) for topic in run.topics]
    pairs = zip(run.topic.tolist(), run.doc.tolist(), strict=True)
    kept = np.array([doc.decode() in docs[topic] for topic, doc in pairs], dtype=bool)
    return replace(run, topic=run.topic[kept], doc=run.doc[kept], score=run.score[kept], context=None)


def _positions(topic: Index) -> Index:
    """Positions from 0 within each stretch of equal topics."""
    new = np.concatenate(([True], topic[1:] != topic[:-1]))[: topic.size]
    heads = np.flatnonzero(new)
    return np.asarray(np.arange(topic.size) - heads[np.cumsum(new) - 1])


def _sum(values: Floats) -> Floats:
    """Sums over runs, which do not depend on the order of the runs. Sums that differ by rounding alone are equal
    (1/78 and 1/117 + 1/234): 44 bits after the leading one are kept. Shape (pairs,).
    """
    with np.errstate(over="ignore"):
        total = np.asarray(np.sort(values, axis=1).sum(axis=1), dtype=np.float64)
    return ((total.view(np.int64) + 128) & -256).view(np.float64)


def _distinct(topic: Index, score: Floats) -> Floats:
    """Scores that are distinct as 32-bit floats wherever they are distinct; sorted by topic, then descending.

    A float of 32 bits is worked with as the number of its steps from 0; a score becomes the lower of its own number
    and one less than that of the score above it.
    """
    bits = score.astype(np.float32).view(np.int32).astype(np.int64)
    steps = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    below = np.concatenate(([False], score[1:] < score[:-1]))
    # Each topic lies wholly below the one before it, so that one running minimum serves all of them.
    offset = np.cumsum(below) - topic * 2**34
    lowered = np.minimum.accumulate(steps + offset) - offset
    moved: npt.NDArray[np.int32] = np.where(lowered < 0, -lowered - 2**31, lowered).astype(np.int32)
    return np.where(lowered == steps, score, moved.view(np.float32).astype(np.float64))
