"""Sections of experiments on theorems: means by group of queries, and query vectors on a plane.

Source: the figures of Gao et al., "A Semantic Search Engine for Mathlib4" (2024): means by group of queries (Figure 6),
and vectors of queries on a plane (Figure 5). An experiment names `theorem_sections` under its key `sections`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.experiments.experiment import labels_text
from harness.experiments.results import ExperimentResults, Outcome
from harness.render import figures
from harness.render.model import Block, Figure, Prose, Section, slug
from harness.reports.comparison import MOST_GROUPS, by_group
from harness.systems.build import build_system
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.states import nested_configurations

PERPLEXITY = 30.0  # scikit-learn's default; lower for few queries
_CLASS = f"{BiEncoder.__module__}.{BiEncoder.__qualname__}"
_FORM = "form"
_LEAST = 4  # minimum number of queries for a map


def theorem_sections(results: ExperimentResults) -> Sequence[Section]:
    """Returns the first measure by group of queries, and the query vectors by group and form."""
    sections = (query_groups_section(results), query_maps_section(results))
    return [section for section in sections if section is not None]


def query_groups_section(results: ExperimentResults) -> Section | None:
    """Returns the means of each group of queries, for the finished rows, where topics have groups."""
    blocks: list[Block] = []
    for part in results.sets:
        there = [(row, scores) for row in results.rows if (scores := results.scores(row, part))]
        task = next((outcome.task for row, _ in there for outcome in results.of(row, part)), None)
        clusters = None if task is None else task.collection.clusters()
        if task is None or clusters is None or not 2 <= len({clusters[t] for t in there[0][1].topics}) <= MOST_GROUPS:
            continue
        measure = results.experiment.measures[0]
        label = there[0][1].protocol.label(measure)
        blocks.append(by_group([scores for _, scores in there], clusters, measure, label, task.collection.cluster))
    return Section("By group of queries", tuple(blocks)) if blocks else None


def query_maps_section(results: ExperimentResults) -> Section | None:
    """Returns query vectors on a plane, one figure for each different encoding."""
    blocks: list[Block] = []
    seen: set[tuple[str, str]] = set()
    for outcome in results.outcomes:
        config = _encoder(outcome.system)
        if config is None or outcome.task is None or outcome.scores is None:
            continue
        row = labels_text(results.experiment.row(outcome.cell.labels))
        collection = outcome.task.collection
        kind = (repr([config.get(key) for key in ("model", "prefixes", "query", "length")]), collection.name)
        if kind in seen or not collection.cluster:
            continue
        seen.add(kind)
        try:
            blocks.append(picture(row, config, outcome, results.seed))
        except HarnessError as error:
            blocks.append(Prose((f"{row}: {error.lines[0]}",)))
    return Section("Query vectors", tuple(blocks)) if blocks else None


def _encoder(system: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the bi-encoder of a system; None without one, or where a model rewrites the queries."""
    if system.get("augment"):
        return None
    return next((part for part in nested_configurations(system) if part.get("_target_") == _CLASS), None)


def picture(row: str, config: Mapping[str, Any], outcome: Outcome, seed: int) -> Figure:
    """Returns the vectors of an outcome's queries, each with its form and group.

    Raises
    ------
    HarnessError
        scikit-learn or the model is missing, or there are too few queries.
    """
    if outcome.task is None:
        raise HarnessError("there is no run")
    judged = set(outcome.task.scorer.qrels.topics)
    topics = Topics(tuple(topic for topic in outcome.task.topics if topic.id in judged))
    built = build_system(config, row).system
    if not isinstance(built, BiEncoder):
        raise HarnessError("its system is not a bi-encoder")
    names, vectors = built.topic_vectors(topics)
    places, perplexity = plane(vectors, seed)
    known: Mapping[str, Topic] = topics.by_id()
    group = outcome.task.collection.cluster
    points = [
        (name, known[name].attributes.get(group, ""), known[name].attributes.get(_FORM, "query"), float(x), float(y))
        for name, (x, y) in zip(names, places, strict=True)
    ]
    version = importlib.metadata.version("scikit-learn")
    how = f"t-SNE of cosines (scikit-learn {version}, perplexity {perplexity:g}, seed {seed})"
    title = f"{len(names)} queries of {outcome.task.collection.name} by the vectors of {config['model']} ({row}): {how}"
    note = "; lines join a query to the centre of its group; distances between distant points are meaningless"
    return Figure(f"queries-{slug(row)}", title + note, figures.stars(points, title))


def plane(vectors: npt.NDArray[np.float32], seed: int) -> tuple[npt.NDArray[np.float64], float]:
    """Returns coordinates by t-SNE, shape (vectors, 2), and the perplexity: at most a third of the vectors.

    The perplexity is at most a third of the number of vectors. The same vectors and seed give the same positions.

    Raises
    ------
    HarnessError
        scikit-learn is not installed, or there are fewer than four vectors.
    """
    if len(vectors) < _LEAST:
        raise HarnessError(f"{len(vectors)} queries are too few for a map; expected at least {_LEAST}")
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise HarnessError("scikit-learn is not installed: pip install 'mathir-harness[sentences]'") from None
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    projection = TSNE(2, perplexity=perplexity, metric="cosine", init="random", random_state=seed, n_jobs=1)
    with threadpool_limits(1):  # sums over several threads differ in their last bits, which t-SNE amplifies
        return np.asarray(projection.fit_transform(unit), np.float64), perplexity
