"""Lucene against bm25 on the real answers, both with the same tokens and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.systems.base import Request, System
from harness.systems.build import load_system
from harness.systems.lexical import runtime
from harness.systems.lexical.anserini import Anserini

LACKING = runtime.missing()
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING) or "nothing is missing"),
]
Rankings = Mapping[str, Mapping[str, float]]


@pytest.fixture(scope="module")
def rankings(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rankings]:
    """bm25, Lucene as it is, and Lucene with the lengths of documents as they are, on ARQMath-3's topics."""
    topics, corpus = load_collection("arqmath-3-task1").topics(), load_corpus("mse-pages")
    lucene = load_system("anserini-latex").system
    assert isinstance(lucene, Anserini)
    systems: dict[str, System] = {
        "bm25": load_system("bm25"),
        "lucene": lucene,
        "exact": replace(lucene, exact_lengths=True),
    }
    folder = tmp_path_factory.mktemp("workspace")
    return {name: system(Request(topics, corpus, folder)).to_dict() for name, system in systems.items()}


def agreement(a: Rankings, b: Rankings) -> tuple[float, float, float]:
    """Means over topics: Kendall's tau-b of the documents that both have, and the overlap of the first ten; the
    largest difference of a score."""
    taus, overlaps, differences = [], [], []
    for topic, docs in a.items():
        common = [doc for doc in docs if doc in b[topic]]
        ours, theirs = ([ranking[topic][doc] for doc in common] for ranking in (a, b))
        taus.append(float(kendalltau(ours, theirs).statistic))
        overlaps.append(len(set(list(docs)[:10]) & set(list(b[topic])[:10])) / 10)
        differences.append(float(np.abs(np.subtract(ours, theirs)).max()))
    return float(np.mean(taus)), float(np.mean(overlaps)), max(differences)


def test_rankings_differ_only_by_the_rounded_lengths_of_documents(rankings: Mapping[str, Rankings]) -> None:
    """With exact lengths the order is the same up to the four digits that Anserini gives; else as measured."""
    tau, overlap, difference = agreement(rankings["bm25"], rankings["exact"])
    assert difference < 1e-4
    assert tau > 0.9999
    assert overlap > 0.999
    tau, overlap, _ = agreement(rankings["bm25"], rankings["lucene"])
    assert tau == pytest.approx(0.976, abs=0.002)
    assert overlap == pytest.approx(0.968, abs=0.005)
