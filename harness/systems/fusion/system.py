"""Rank fusion as a run producer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.columns import Floats, Index
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run, read_run
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import read_bytes, sha256
from harness.scoring.measures import discounts
from harness.systems.base import MARK, Pool, reads, trains_without
from harness.systems.build import check_cycle, load_system
from harness.systems.fusion.candidates import DEPTH, fuse, gather, positions
from harness.systems.fusion.methods import METHODS, MISSING, NORMALIZATIONS, rbc_fit


def training_ndcg(run: Run, qrels: Qrels, depth: int = DEPTH) -> float:
    """A run's nDCG' over all judged topics: cut at depth, unjudged documents removed, gains are grades."""
    candidates = gather([run], depth)
    row = candidates.find(qrels)

    def dcg(rows: Index, key: Floats) -> Floats:
        rows = rows[np.lexsort((key[rows], qrels.topic[rows]))]
        place = positions(qrels.topic[rows].astype(np.int64))
        gain = qrels.grade[rows] * discounts(len(qrels))[place]
        return np.bincount(qrels.topic[rows], gain, len(qrels.topics)).astype(np.float64)

    found = dcg(np.flatnonzero(row >= 0), candidates.rank[row, 0])
    best = dcg(np.arange(len(qrels)), -qrels.grade)
    values = np.divide(found, best, out=np.zeros(best.shape), where=best > 0)
    return math.fsum(values.tolist()) / len(qrels.topics)


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
