"""Topics that are no independent sample: means stay over topics, errors are those of clusters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import config
from harness.papers.mathlib4 import readers as leansearch
from harness.scoring.compare import compare
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

Conf = Callable[[str, str, str], Path]


def scores(run: str, values: list[float]) -> Scores:
    topics = tuple(f"T{number}" for number in range(len(values)))
    column = np.array(values, dtype=np.float64)[:, None]
    return Scores(run, "c", "e", Protocol("p", ("RR",)), ("RR",), topics, column)


def test_a_cluster_has_the_mean_of_its_topics_that_count() -> None:
    clusters = {"T0": "a", "T1": "b", "T2": "a", "T3": "c", "T4": "b"}
    found = scores("x", [1.0, 0.5, 0.0, math.nan, math.nan]).by_cluster(clusters)
    assert found.topics == ("a", "b", "c")
    assert found.column("RR")[:2].tolist() == [0.5, 0.5]
    assert math.isnan(found.column("RR")[2])
    assert (found.n("RR"), found.mean("RR")) == (2, 0.5)


def test_means_are_over_topics_whatever_the_clusters() -> None:
    """The best run by topics is the best by what is tested, inside its interval, although cluster means reverse it."""
    clusters = {f"T{at}": name for at, name in enumerate("xxxxyzw")}
    a, b = scores("a", [0.9, 0.9, 0.8, 0.9, 0.1, 0.0, 0.1]), scores("b", [0.5, 0.5, 0.6, 0.5, 0.4, 0.4, 0.3])
    assert a.by_cluster(clusters).mean("RR") < b.by_cluster(clusters).mean("RR")
    assert a.by_cluster(clusters, weighted=True).mean("RR") == pytest.approx(a.mean("RR"))
    row = compare([a, b], "b", clusters=clusters).rows[0]
    assert (row.n, row.wins + row.ties + row.losses) == (4, 4)
    assert (row.mean_a, row.mean_b) == (a.mean("RR"), b.mean("RR"))
    assert row.difference == pytest.approx(row.mean_a - row.mean_b)
    assert row.difference > 0
    assert row.ci_low < row.difference < row.ci_high
    # The randomization test flips the sums of clusters.
    sums = [1.4, -0.3, -0.4, -0.2]
    flips = [abs(sum(s * x for s, x in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=4)]
    assert row.p_randomization == sum(flip >= abs(sum(sums)) - 1e-9 for flip in flips) / 16
    with pytest.raises(HarnessError, match="runs a and b have 1 cluster for RR in common"):
        compare([a, b], "b", clusters=dict.fromkeys(clusters, "x"))


def test_copies_of_topics_do_not_make_a_difference_more_certain() -> None:
    a, b = [0.9, 0.8, 0.3, 0.7], [0.5, 0.6, 0.4, 0.1]
    once = compare([scores("a", a), scores("b", b)], "b").rows[0]
    clusters = {f"T{number}": str(number % 4) for number in range(20)}
    again = compare([scores("a", a * 5), scores("b", b * 5)], "b", clusters=clusters).rows[0]
    assert again.n == once.n
    assert again.p == pytest.approx(once.p)
    naive = compare([scores("a", a * 5), scores("b", b * 5)], "b").rows[0]
    assert naive.p is not None
    assert once.p is not None
    assert naive.p < once.p / 10


def test_collections_say_what_their_clusters_are(conf: Conf, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("T1 0 a 1\nT2 0 a 1\n")
    rows = ['{"id": "T1", "title": "x", "attributes": {"item": "i"}}', '{"id": "T2", "title": "y"}']
    (tmp_path / "topics").write_text("\n".join(rows) + "\n")
    mapping = (
        "name: mine\ntitle: x\nlicence: y\nprotocol: trec_eval\n{cluster}"
        f"topics: {{{{reader: jsonl, file: '{tmp_path / 'topics'}'}}}}\neditions:\n"
        f"  all: {{{{title: x, qrels: {{{{file: '{tmp_path / 'qrels'}'}}}}, topics: 2, judgments: 2}}}}\n"
    )
    conf("collection", "mine", mapping.format(cluster=""))
    assert load_collection("mine").clusters() is None
    conf("collection", "ours", mapping.format(cluster="cluster: item\n").replace("name: mine", "name: ours"))
    with pytest.raises(HarnessError, match="key 'cluster': topic T2 has no attribute 'item'"):
        load_collection("ours").clusters()


def test_topics_that_share_their_judgments_are_one_cluster() -> None:
    """In every embedded collection; and the clusters of mini-theorems are no larger than that."""
    sharing = set()
    for name in (name for name in config.names("collection") if name.startswith("mini-")):
        collection = load_collection(name)
        clusters = collection.clusters() or {topic.id: topic.id for topic in collection.topics()}
        judged = {topic: frozenset(docs.items()) for topic, docs in collection.qrels().to_dict().items()}
        for one, two in combinations(judged, 2):
            if judged[one] == judged[two]:
                sharing.add(name)
                assert clusters[one] == clusters[two], (name, one, two)
    assert sharing == {"mini-theorems"}
    assert len(set((load_collection("mini-theorems").clusters() or {}).values())) == 10


def test_queries_of_leansearch_are_clustered_by_what_shares_their_labels() -> None:
    """Its file must be brought; the reader gives every topic the attribute that the configuration names."""
    queries = [{"form": "theorem name", "query": "Cantor"}, {"form": "latex formula", "query": "$x$"}]
    data = json.dumps([{"group": group, "queries": queries, "theorems": {"A.b": 2}} for group in ("1", "2")]).encode()
    name = load_collection("leansearch").cluster
    clusters = {topic.id: topic.attributes[name] for topic in leansearch.read_topics(data, "f")}
    assert clusters == {"1.1": "1", "1.2": "1", "2.1": "2", "2.2": "2"}


def test_clusters_of_many_topics_are_found_by_name_not_by_search() -> None:
    """As many comparisons of names as there are topics, not as there are pairs."""

    class Name(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    n = 2_000
    found = scores("x", [0.5] * n).by_cluster({f"T{number}": Name(f"c{number}") for number in range(n)})
    assert len(found.topics) == n
    assert Name.compared <= 4 * n
