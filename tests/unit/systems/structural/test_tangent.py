"""Tangent: tuples counted at once for many trees, common subtrees by hand, and runs."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import pytest
from case_tables import table
from formula_tools import Nested, random_trees, tree_from_tuples
from lexical_tools import found
from structural_tools import formula_corpus, formula_topics

from harness.collections.corpus import Corpus
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree, children, parse_tangent, tuples
from harness.systems.structural import tangent
from harness.systems.structural.tangent import Dice, Tangent

LABELS = ("V!x", "V!y", "V!z", "N!2", "U!plus", "O!minus", "O!SUP")


def dice(query: Sequence[Hashable], documents: Sequence[Sequence[Hashable]]) -> list[float]:
    """Dice of multisets weighted by ln(1 + N / n), written out."""
    bags = [Counter(document) for document in documents]
    seen = Counter(feature for bag in bags for feature in bag)
    asked = Counter(query)
    weight = {f: math.log1p(len(bags) / max(seen[f], 1)) for f in {*seen, *asked}}

    def mass(bag: Counter[Hashable]) -> float:
        return sum(weight[f] * n for f, n in bag.items())

    return [2 * mass(asked & bag) / (mass(asked) + mass(bag)) for bag in bags]


def operator_trees(number: int, seed: int, size: int = 12) -> list[Tree]:
    """Trees of few labels whose arguments stand at the places 0, 1, 2."""
    rng = random.Random(seed)

    def nested(left: int) -> Nested:
        below: list[tuple[str, Nested]] = []
        while left > 1 and len(below) < 3:
            part = rng.randint(1, left - 1)
            below.append((str(len(below)), nested(part)))
            left -= part
        return rng.choice(LABELS[4:] if below else LABELS[:4]), below

    return [tree_from_tuples(nested(rng.randint(1, size))) for _ in range(number)]


def shuffled(tree: Tree, rng: random.Random) -> Tree:
    """The tree with the arguments of unordered operators in another order."""
    below = children(tree)

    def nested(node: int) -> Nested:
        parts = [(tree.edges[child], nested(child)) for child in below[node]]
        if tree.labels[node].startswith("U!"):
            arguments = [part for _, part in parts]
            rng.shuffle(arguments)
            parts = [(str(place), part) for place, part in enumerate(arguments)]
        return tree.labels[node], parts

    return tree_from_tuples(nested(0))


def shared(one: str, other: str, credit: float = 0.0) -> float:
    packed = forest.pack([parse_tangent(other)])
    return float(
        tangent.common(
            parse_tangent(one), tangent.CandidateNodes.of(packed, tangent.nodes(packed), np.zeros(1, np.int64)), credit
        )[0]
    )


# ---- tuples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 3, None])
def test_trees_are_scored_by_dice_of_their_tuples(window: int | None) -> None:
    documents, asked = random_trees(60, seed=1), random_trees(15, seed=2)
    index = Dice.of(tangent.pairs(tangent.nodes(forest.pack(documents)), window), len(documents))
    bags = [tuples(tree, window, ends=True) for tree in documents]
    for tree in (*asked, *documents[:5]):
        expected = dice(tuples(tree, window, ends=True), bags)
        np.testing.assert_allclose(
            index.score(tangent.pairs(tangent.nodes(forest.pack([tree])), window)), expected, atol=1e-12
        )


def test_long_rows_have_near_tuples_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangent, "LARGE", 30)
    monkeypatch.setattr(tangent, "NEAR", 5)

    def row(length: int) -> Tree:
        return Tree(("V!x",) * length, tuple(range(-1, length - 1)), ("", *["n"] * (length - 1)))

    tree, _ = tangent.pairs(tangent.nodes(forest.pack([row(31), row(30)])))
    # One end, then for each distance d the pairs of a row: 31 - d up to 5 edges, 30 - d for all 29.
    assert np.bincount(tree).tolist() == [1 + sum(31 - d for d in range(1, 6)), 1 + sum(range(1, 30))]


def test_wildcards_make_all_variables_alike() -> None:
    texts = ("[V!x[=[V!y]]]", "[V!a[=[V!a]]]", "[N!1[=[V!a]]]")
    renamed = [tuples(parse_tangent(re.sub("V!.", "V!", text)), ends=True) for text in texts]
    all_ = tangent.wildcards(tangent.nodes(forest.pack(map(parse_tangent, texts))))
    scores = Dice.of(tangent.pairs(all_), 3).score(
        tangent.pairs(tangent.wildcards(tangent.nodes(forest.pack([parse_tangent(texts[0])]))))
    )
    assert scores.tolist() == pytest.approx(dice(renamed[0], renamed))
    assert scores[1] == 1 > scores[2]


def test_unknown_features_count_in_the_length_of_the_query() -> None:
    index = Dice.of(tangent.pairs(tangent.nodes(forest.pack([parse_tangent("[V!x]"), parse_tangent("[V!y]")]))), 2)
    # One tuple of each weighs ln 3; the query has another two that nothing has.
    assert index.score(tangent.pairs(tangent.nodes(forest.pack([parse_tangent("[V!x[+]]")])))).tolist() == [0, 0]
    asked = tangent.pairs(tangent.nodes(forest.pack([parse_tangent("[O!f,0[V!x],1[V!x]]")])))
    assert index.score(asked) == pytest.approx([2 * 1 / (1 + 4), 0])


# ---- largest common subtree -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other", "credit", "paired"), table("systems/subtrees"))
def test_common_subtree_by_hand(one: str, other: str, credit: str, paired: str) -> None:
    share = 2 * float(paired) / (len(parse_tangent(one)) + len(parse_tangent(other)))
    assert shared(one, other, float(credit)) == pytest.approx(share)


def test_many_trees_are_aligned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    some = operator_trees(20, seed=4)
    packed = forest.pack(some)
    at_once = [tangent.aligned(tree, packed, tangent.nodes(packed), np.arange(20), 0.8) for tree in some]
    monkeypatch.setattr("harness.systems.structural.tangent._CELLS", 100)
    for tree, expected in zip(some, at_once, strict=True):
        assert tangent.aligned(tree, packed, tangent.nodes(packed), np.arange(20), 0.8).tolist() == expected.tolist()


# ---- the system -------------------------------------------------------------------------------------------------


LATEX = {
    "a": r"x^2+y^2=z^2",
    "b": r"a^2+b^2=c^2",
    "c": r"\int_0^1 f(x)\,dx",
    "d": r"x+1",
    "e": r"x^2+y^2=z^2+1",
    "f": r"\frac{x}{2}",
}


@pytest.fixture
def latex_corpus(tmp_path: Path) -> Corpus:
    return formula_corpus(tmp_path, LATEX)


@pytest.mark.parametrize("representation", ["opt", "slt", "both"])
def test_a_run(latex_corpus: Corpus, tmp_path: Path, representation: str) -> None:
    system = Tangent(representation=representation)  # type: ignore[arg-type]
    run = found(system, formula_topics(A=[LATEX["a"]], B=[LATEX["c"]]), latex_corpus, tmp_path)
    assert list(run["A"])[:3] == ["a", "e", "b"] or list(run["A"])[:3] == ["a", "b", "e"]
    assert run["A"]["a"] == pytest.approx(1)
    assert next(iter(run["B"])) == "c"
    assert found(system, formula_topics(A=[LATEX["a"]], B=[LATEX["c"]]), latex_corpus, tmp_path) == run


def test_formulas_of_a_topic_count_by_their_tuples(latex_corpus: Corpus, tmp_path: Path) -> None:
    """A topic of two formulas: each document the sum of what they give alone, the longer one counting more."""
    system = Tangent(representation="opt")
    topics = formula_topics(A=[LATEX["a"]], B=[LATEX["d"]], C=[LATEX["a"], LATEX["d"]])
    run = found(system, topics, latex_corpus, tmp_path)
    share = (run["C"]["a"] - run["B"]["a"]) / (1 - run["B"]["a"])
    assert 0.5 < share < 1
    for doc, score in run["C"].items():
        both = share * run["A"].get(doc, 0) + (1 - share) * run["B"].get(doc, 0)
        assert score == pytest.approx(both, abs=1e-6)


def test_few_candidates_are_aligned(latex_corpus: Corpus, tmp_path: Path) -> None:
    parts = [
        found(Tangent("opt", candidates=n, weights=weights), formula_topics(A=[LATEX["b"]]), latex_corpus, tmp_path)[
            "A"
        ]
        for n, weights in ((6, {"tuples": 1, "subtree": 1}), (1, {"tuples": 1, "subtree": 1}), (1, {"tuples": 1}))
    ]
    assert parts[1]["b"] == parts[0]["b"] == pytest.approx(1)
    assert parts[1]["a"] == pytest.approx(parts[2]["a"] / 2)
    assert parts[0]["a"] > parts[1]["a"]
