"""What holds for every structural system: formulas find themselves, pools are ranked alone, faults are one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lexical_tools import found, message
from structural_tools import formula_corpus, formula_topics
from test_tangent import LATEX

from harness.systems.base import Request, System
from harness.systems.build import load_system
from harness.systems.structural.l2l import L2L
from harness.systems.structural.tangent import Tangent
from harness.systems.structural.tangent_s import TangentS
from harness.systems.structural.tree import Structural

SYSTEMS: dict[str, Callable[[], System]] = {"tree": Structural, "tangent": Tangent, "tangent-s": TangentS, "l2l": L2L}
systems = pytest.mark.parametrize("name", SYSTEMS)


@systems
def test_topics_without_a_match_have_no_answer(name: str, tmp_path: Path) -> None:
    """A formula that nothing has counts in the query's length."""
    nothing = r"\emptyset" if name == "tree" else "77"  # a tree's paths have wildcards
    topics = formula_topics(A=[LATEX["a"]], B=[nothing], C=[], D=[LATEX["a"], nothing])
    run = found(SYSTEMS[name](), topics, formula_corpus(tmp_path, LATEX), tmp_path)
    assert set(run) == {"A", "D"}
    assert set(run["A"]) == set(run["D"])
    assert 0 < run["D"]["a"] < max(run["A"].values())
    if name != "tangent-s":  # whose weights favour larger formulas
        assert [next(iter(run[topic])) for topic in "AD"] == ["a", "a"]
        assert run["A"]["a"] == pytest.approx(1)


@systems
def test_the_pool_alone_is_ranked(name: str, tmp_path: Path) -> None:
    pool = {"A": frozenset({"b", "f", "unknown"})}
    run = found(SYSTEMS[name](), formula_topics(A=[LATEX["a"]]), formula_corpus(tmp_path, LATEX), tmp_path, pool)
    assert list(run["A"]) == ["b", "f"]
    assert run["A"]["b"] > run["A"]["f"] >= 0


@systems
def test_a_corpus_is_needed(name: str) -> None:
    request = Request(formula_topics(A=["x"]), None, Path())
    assert message(lambda: SYSTEMS[name]()(request)).startswith(f"system {name}: needs a corpus")


@pytest.mark.parametrize("name", ["tree", "tangent", "l2l"])
def test_the_shipped_configuration_has_the_defaults(name: str) -> None:
    assert load_system(name).system == SYSTEMS[name]()
