"""Topics that are no independent sample: averaged by cluster before they are tested."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.collections import load_collection
from harness.errors import HarnessError
from harness.protocol import Protocol, Scores
from harness.stats import compare

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


def test_copies_of_topics_do_not_make_a_difference_more_certain() -> None:
    a, b = [0.9, 0.8, 0.3, 0.7], [0.5, 0.6, 0.4, 0.1]
    once = compare([scores("a", a), scores("b", b)], "b").rows[0]
    clusters = {f"T{number}": str(number % 4) for number in range(20)}
    copied = [scores(name, values * 5).by_cluster(clusters) for name, values in (("a", a), ("b", b))]
    again = compare(copied, "b").rows[0]
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
