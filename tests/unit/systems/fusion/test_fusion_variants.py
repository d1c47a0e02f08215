"""The variants of MIRMU's fusion: the paper's formula, and that of the authors' library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fusion_tools import judgments, noisy, pairs_of, ranked

from harness.data.run_writers import write_run
from harness.data.trec import Qrels, Run
from harness.io import config
from harness.papers.paper import load_paper
from harness.systems.fusion import methods
from harness.systems.fusion.candidates import align_results, fuse
from harness.systems.fusion.system import Fusion

RUNS = [ranked("a", T="XYU"), ranked("b", T="VYW"), ranked("c", T="RSY")]


def scores(method: str, runs: Sequence[Run], depth: int = 3, **how: object) -> dict[str, float]:
    candidates = align_results(runs, depth)
    return {doc: score for (_, doc), score in pairs_of(candidates, getattr(methods, method)(candidates, **how)).items()}


def test_ibc_by_hand() -> None:
    """Paper: X has ranks 1, 3, 3 with N = 3, so 0, and Y 2, 2, 3, so 1/3. Authors: X has rank 1 alone, so 2/3."""
    paper, authors = (scores("ibc", RUNS, variant=variant) for variant in methods.VARIANTS)
    tie = 0.4 / 3  # the most that a tie's draw adds
    assert paper["X"] == pytest.approx(0, abs=tie)
    assert 1 / 3 <= paper["Y"] <= 1 / 3 + tie
    assert max(paper, key=lambda doc: paper[doc]) == "Y"
    for doc, share in {"X": 2 / 3, "V": 2 / 3, "R": 2 / 3, "Y": 1 / 3, "S": 1 / 3, "U": 0, "W": 0}.items():
        assert share <= authors[doc] <= share + tie
    assert scores("ibc", RUNS) == paper


def test_n_is_the_length_of_the_last_list() -> None:
    """N decides scores, not the order within a topic; a topic that the last run does not answer has the depth."""
    runs = [ranked("a", T="XYU", S="X"), ranked("b", T="X")]
    found = fuse(runs, partial(methods.ibc, variant="authors"), "x", 10)
    got = found.to_dict()
    assert list(got["T"]) == list("XYU")
    tie = 0.4
    for topic, doc, n, rank in (("T", "X", 1, 1), ("T", "Y", 1, 2), ("T", "U", 1, 3), ("S", "X", 10, 1)):
        assert (n - rank) / n <= got[topic][doc] + 1e-6
        assert got[topic][doc] <= (n - rank + tie) / n + 1e-6


def test_wibc_adds_weights_up_in_the_order_of_the_systems() -> None:
    """Z has ranks 3, 1, 2: sorted, weights .2 .5 .3 reach half at rank 1, the 0.5 of the second run, and 2: 1.5.

    In the order of the systems .3 .2 .5 they reach it exactly at the second run, so the mean of ranks 1 and 2.
    """
    runs = [ranked("a", T="XYZ"), ranked("b", T="ZXY"), ranked("c", T="XZY")]
    weights = [3.0, 2.0, 5.0]
    tie = 0.4 / 3
    low = (3 - 1.5) / 3
    assert low <= scores("wibc", runs, weights=weights, variant="authors")["Z"] <= low + tie
    # Sorted by rank (1, 2, 3) the weights are 2, 5, 3: half is passed at rank 2.
    assert 1 / 3 <= scores("wibc", runs, weights=weights)["Z"] <= 1 / 3 + tie
    # Y has ranks 2, 3, 3: authors 2.5 or so: the mean of ranks 3 and 3.
    assert scores("wibc", runs, weights=weights, variant="authors")["Y"] <= tie


def test_rbc_is_least_squares_on_relevant_or_not() -> None:
    """Against plain least squares over all retrieved documents: unjudged ones are 0, and so is grade 1."""
    qrels = judgments()
    runs = [noisy(qrels, "a", 0.3), noisy(qrels, "b", 2, "AB")]
    candidates = align_results(runs, depth=20)
    found = methods.rbc_fit(candidates, qrels, variant="authors")
    known, rows, labels = qrels.to_dict(), [], []
    for topic in "ABC":
        known_scores = [run.to_dict().get(topic, {}) for run in runs]
        lists = [sorted(each, key=lambda doc: -each[doc])[:20] for each in known_scores]
        n = len(lists[-1]) or 20
        for doc in sorted(set(lists[0]) | set(lists[1])):
            rows.append([1.0, *((n - each.index(doc) - 1) / n if doc in each else 0.0 for each in lists)])
            labels.append(float(known[topic].get(doc, 0) >= 2))
    assert any(doc.startswith("u") for run in runs for doc in run.to_dict()["A"])  # unjudged, retrieved
    assert found == pytest.approx(np.linalg.lstsq(np.array(rows), np.array(labels), rcond=None)[0])
    predicted = pairs_of(candidates, methods.rbc(candidates, found, "authors"))
    assert sorted(predicted.values()) == pytest.approx(sorted((np.array(rows) @ found).tolist()))
    assert abs(found - methods.rbc_fit(candidates, qrels)).max() > 0.01


def test_a_run_twice_shares_its_slope() -> None:
    """Least squares have no one solution then: the shortest is taken, and nothing fails."""
    qrels = judgments()
    alone = methods.rbc_fit(align_results([noisy(qrels, "a", 0.3)]), qrels, variant="authors")
    twice = methods.rbc_fit(align_results([noisy(qrels, "a", 0.3)] * 2), qrels, variant="authors")
    assert twice == pytest.approx([alone[0], alone[1] / 2, alone[1] / 2])


def test_the_system_learns_and_ranks_by_its_variant(tmp_path: Path) -> None:
    qrels = judgments()
    files = []
    for name in "ab":
        write_run(noisy(qrels, name, 1.0, "AB"), tmp_path / f"{name}.run")
        files.append(str(tmp_path / f"{name}.run"))
    tested = [noisy(qrels, "a", 1.0, "C"), noisy(qrels, "b", 1.0, "C")]
    training = [noisy(qrels, name, 1.0, "AB") for name in "ab"]
    half = Qrels.from_dict("half", {topic: docs for topic, docs in qrels.to_dict().items() if topic in "AB"})
    found = {}
    for variant in methods.VARIANTS:
        system = Fusion(files, "rbc", training_runs=files, variant=variant)
        found[variant] = system.fused(tested, (training, half)).to_dict()["C"]
        coefficients = methods.rbc_fit(align_results(training), half, variant=variant)
        expected = fuse(tested, partial(methods.rbc, coefficients=coefficients, variant=variant), "x").to_dict()["C"]
        assert found[variant] == expected
    assert found["paper"] != found["authors"]


def test_every_row_of_the_paper_says_its_variant() -> None:
    paper = load_paper("mirmu-msm")
    assert paper.config.available is not None
    rows = [entry for table in paper.config.available.tables.values() for entry in table.values()]
    having = [entry for entry in rows if entry.system in ("fusion-ibc", "fusion-wibc", "fusion-rbc")]
    assert len(having) == 15
    assert {(entry.set or {}).get("variant") for entry in having} == {"paper"}
    conditions = config.load("experiment", "mirmu")[0]["conditions"]
    for name, condition in conditions.items():
        if {"system=fusion-ibc", "system=fusion-wibc", "system=fusion-rbc"} & set(condition["overrides"]):
            assert "system.variant=paper" in condition["overrides"], name
