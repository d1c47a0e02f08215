"""Tangent-S: the three values by hand, the combination of both trees, the ranking."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from case_tables import table
from lexical_tools import found
from structural_tools import encode, formula_corpus, formula_topics

from harness.collections.corpus import Corpus, Document
from harness.formulas.trees import forest
from harness.formulas.trees.tree import parse_tangent
from harness.systems.structural.tangent import Dice, nodes, pairs
from harness.systems.structural.tangent_s import TangentS, learn, similarities


def values(query: str, candidate: str, kind: str) -> list[float]:
    out: list[float] = similarities(parse_tangent(query), forest.pack([parse_tangent(candidate)]), np.array([0]), kind)[
        0
    ].tolist()
    return out


@pytest.mark.parametrize(("kind", "query", "candidate", "expected"), table("systems/alignments"))
def test_values_by_hand(kind: str, query: str, candidate: str, expected: str) -> None:
    assert values(query, candidate, kind) == pytest.approx([float(Fraction(each)) for each in expected.split()])


def test_candidates_are_found_by_plain_dice() -> None:
    """x+1 has three tuples and, as its tree is flat, two end marks; only the pair of plus and 1 is shared by all."""
    some = [
        parse_tangent(text)
        for text in ("[U!plus,0[V!x],1[N!1]]", "[U!plus,0[V!y],1[N!1]]", "[O!f,0[U!plus,0[V!x],1[N!1]]]")
    ]
    index = Dice.of(pairs(nodes(forest.pack(some)), 4, flat=True), 3, weighted=False)
    query = pairs(nodes(forest.pack(some[:1])), 4, flat=True)
    assert index.score(query).tolist() == pytest.approx([1, 2 * 2 / (4 + 4), 2 * 2 / (4 + 5)])


DOCUMENTS = {
    "same": ("[V!x,a[N!2]]", "[O!SUP,0[V!x],1[N!2]]"),
    "other": ("[V!y,a[N!2]]", "[O!SUP,0[V!y],1[N!2]]"),
    "layout": ("[V!x,a[N!2]]", ""),
    "operator": ("", "[O!SUP,0[V!x],1[N!2]]"),
    "longer": ("[V!x,a[N!2[+[N!2]]]]", "[U!plus,0[O!SUP,0[V!x],1[N!2]],1[N!2]]"),
}


def features(system: TangentS) -> dict[str, list[float]]:
    some = [Document(name, columns={"slt": slt, "opt": opt}) for name, (slt, opt) in DOCUMENTS.items()]
    known = [system.index(encode(some, kind)) for kind in system.kinds]
    query = tuple(parse_tangent(DOCUMENTS["same"][0 if kind == "slt" else 1]) for kind in system.kinds)
    rows, columns = system.features(query, known)
    return {list(DOCUMENTS)[row]: column for row, column in zip(rows.tolist(), columns.tolist(), strict=True)}


def test_a_candidate_of_one_kind_has_the_values_of_both() -> None:
    some = features(TangentS(candidates=1))
    assert some == {"same": [1, 1, 1, 1, 1, 1], "layout": [1, 1, 1, 0, 0, 0], "operator": [0, 0, 0, 1, 1, 1]}
    all_ = features(TangentS())
    assert all_["other"] == pytest.approx([1, 1, 1 / 2, 1, 1, 2 / 3])
    assert all_["longer"] == pytest.approx([1, 1 / 2, 1, 1, 3 / 5, 1])


def test_one_kind_is_ranked_by_the_values_in_their_order() -> None:
    system = TangentS("slt")
    rows = np.array([[0.5, 1, 1], [1, 0.2, 0.1], [1, 0.1, 1], [0.5, 1, 0.9], [1, 0.2, 0.1]])
    assert system.combined(rows).tolist() == [0.5, 1, 0.75, 0.25, 1]


def test_both_kinds_are_combined_linearly() -> None:
    system = TangentS(weights={"slt": [1, -2, 0], "opt": [0, 0, 3]})
    rows = np.array([[1, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 0], [0.5, 0.5, 0, 0, 0, 0.5]])
    assert system.combined(rows).tolist() == pytest.approx([1, 0, (0.5 - 1 + 1.5 + 2) / 6])


def test_weights_are_learned_by_linear_regression() -> None:
    some = np.random.default_rng(1).random((50, 6))
    weights = {"slt": [1.0, -0.5, 2.0], "opt": [0.0, 0.25, -1.0]}
    learned = learn(some, some @ np.concatenate(list(weights.values())) + 0.7)
    assert {kind: pytest.approx(each) for kind, each in weights.items()} == learned


LATEX = {"same": "x^2+1", "other": "y^2+3", "longer": "x^2+1=0", "function": "f(x)", "damaged": "\\frac"}


@pytest.fixture
def latex_corpus(tmp_path: Path) -> Corpus:
    return formula_corpus(tmp_path, LATEX)


@pytest.mark.parametrize(
    ("representation", "expected"),
    [("slt", ["same", "longer"]), ("opt", ["same", "other", "longer"]), ("both", ["longer", "same", "other"])],
)
def test_a_run(latex_corpus: Corpus, tmp_path: Path, representation: str, expected: list[str]) -> None:
    """A topic of two formulas has the mean of what they give alone; the published weights favour larger candidates."""
    topics = formula_topics(A=[LATEX["same"]], B=[LATEX["function"]], C=["77"], D=[LATEX["same"], LATEX["function"]])
    run = found(TangentS(representation), topics, latex_corpus, tmp_path)  # type: ignore[arg-type]
    assert list(run["A"]) == expected
    assert next(iter(run["B"])) == "function"
    assert "C" not in run
    for doc, score in run["D"].items():
        assert score == pytest.approx((run["A"].get(doc, 0) + run["B"].get(doc, 0)) / 2)
