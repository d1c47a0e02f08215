"""Tokens of formulas beside words, and BM25 that weighs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from formula_tools import mutated
from lexical_tools import corpus_of, found, message, topics_of
from refusals import refuses

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.formulas.slt import read as layout
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.lexical import text
from harness.systems.lexical.system import BM25
from harness.systems.structural.tokens import (
    FormulaBM25,
    operator_paths,
    pairs_and_paths,
    symbol_pairs,
    wide_symbol_pairs,
)
from harness.systems.structural.words import TreeBM25, words

FUNCTIONS = (symbol_pairs, wide_symbol_pairs, operator_paths, pairs_and_paths)
VIEW = {"name": "latex", "formulas": "harness.systems.structural.tokens.symbol_pairs"}


@pytest.mark.parametrize(
    ("function", "latex", "tokens"),
    [
        (symbol_pairs, "x", ["#V!x,0!,"]),
        (symbol_pairs, "x^2", ["#V!x,N!2,a", "#N!2,0!,"]),
        (symbol_pairs, "x+1", ["#V!x,+,n", "#+,N!1,n", "#N!1,0!,"]),
        (wide_symbol_pairs, "x+1", ["#V!x,+,n", "#+,N!1,n", "#V!x,N!1,nn", "#N!1,0!,"]),
        (operator_paths, "x+1", ["#V!𝑥", "#V!𝑥<U!plus", "#N!1", "#N!1<U!plus"]),
        (operator_paths, "x", ["#V!𝑥"]),
        (pairs_and_paths, "x", ["#V!x,0!,", "#V!𝑥"]),
    ],
)
def test_tokens_by_hand(function: Callable[[str], tuple[str, ...]], latex: str, tokens: list[str]) -> None:
    assert sorted(function(latex)) == sorted(tokens)


@pytest.mark.parametrize("latex", ["", r"\\", " "])
def test_what_cannot_be_read_has_no_tokens(latex: str) -> None:
    assert [function(latex) for function in FUNCTIONS] == [()] * 4


@pytest.mark.slow
def test_tokens_of_broken_latex() -> None:
    pieces = [*"\\{}$&x2^_\n\u3000\udcffé〈", "\\text{a b}", "\\frac"]
    for latex in mutated([r"\frac{a}{b}", r"\text{if } x>0", r"\begin{cases}a&b\\c&d\end{cases}"], pieces, 500, seed=1):
        check(latex)


def check(latex: str) -> None:
    tokens = {token for function in FUNCTIONS for token in function(latex)}
    for token in tokens:
        assert token.startswith("#")
        assert token.isprintable()
        assert token.split() == [token]
        token.encode()
    assert not tokens & {*text.words(latex), *text.latex_tokens(latex), *text.identifiers(latex)}


def test_a_view_has_them_beside_words() -> None:
    tokens = text.configured({**VIEW, "name": "text"})("the square $x^2$ and $y$")
    assert tokens == ["the", "square", "#V!x,N!2,a", "#N!2,0!,", "and", "#V!y,0!,"]
    assert text.configured(VIEW)("$y$") == ["$y", "#V!y,0!,"]
    versions = text.version(VIEW)
    assert versions is not None
    assert json.loads(json.dumps(versions)) == versions  # kept in the store, under the code that read the formulas


DOCUMENTS = {
    "words": "a square of a number",
    "formula": "we have $x^2+1$ here",
    "both": "a square such as $x^2+1$",
    "other": "nothing of the kind $z$",
}


def test_alpha_weighs_formulas_against_words(tmp_path: Path) -> None:
    corpus, topics = corpus_of(tmp_path, DOCUMENTS), topics_of(A="square $x^2+1$")

    def run(alpha: float) -> dict[str, float]:
        view = {**VIEW, "name": "text"}
        return found(FormulaBM25(alpha=alpha, view=view, document={"body": 1}), topics, corpus, tmp_path)["A"]

    assert set(run(0)) == {"words", "both"}
    assert set(run(1)) == {"formula", "both"}
    assert set(run(0.5)) == {"words", "formula", "both"}
    for doc in ("words", "formula", "both"):
        one, none = run(1).get(doc, 0), run(0).get(doc, 0)
        assert run(0.3)[doc] == pytest.approx(0.3 * one + 0.7 * none, rel=1e-6)
    view = {**VIEW, "name": "text"}
    plain = found(BM25(view=view, document={"body": 1}), topics, corpus, tmp_path)["A"]
    assert run(0.5) == {doc: pytest.approx(score / 2) for doc, score in plain.items()}
    assert list(run(0.5)) == list(plain)


def test_errors_are_one_line() -> None:
    assert message(lambda: FormulaBM25(view={"formulas": "harness.systems.structural.tokens.none"})).startswith(
        "key 'view.formulas' is"
    )


def test_the_shipped_configuration() -> None:
    system = load_system("bm25-formulas").system
    assert isinstance(system, FormulaBM25)
    assert text.configured(system.view)("$x$") == ["$x", "#V!x,0!,"]


@pytest.mark.parametrize(("body", "said"), [("x^2 without dollars", True), ("with $x^2$", False)])
def test_a_corpus_without_formulas_in_its_text_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, said: bool
) -> None:
    corpus, topics = corpus_of(tmp_path, {"d": body, "e": "words"}), topics_of(A="dollars with $x^2$")
    load_system("bm25-formulas")(Request(topics, corpus, tmp_path / "workspace"))
    assert ("corpus c: no document contains a formula" in capsys.readouterr().err) is said


# ---- BM25 over pieces of trees


def test_words_of_a_tree() -> None:
    """x to the square, then plus, then 1: pairs of neighbours and of symbols two edges apart, and the ends of lines."""
    tree = layout.read_latex("x^2+1").tree
    found = words(tree, "slt").split()
    assert len(found) == len(set(found))
    assert any(word.startswith("V!x|N!2|") for word in found)
    assert any(word.startswith("V!x|N!1|") for word in found)  # two edges apart


def test_no_other_pieces() -> None:
    refuses("did you mean 'symbol_pairs'", lambda: TreeBM25("symbol_pair"))


def test_a_corpus_of_posts_is_refused(tmp_path: Path) -> None:
    topics, corpus = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    with pytest.raises(HarnessError, match="expected a corpus of formulas; mini-answers has a document with none or"):
        TreeBM25()(Request(topics, corpus, tmp_path))
