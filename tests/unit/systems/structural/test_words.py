"""BM25 over pieces of trees: what it finds, and what the pieces are."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.formulas.slt import read as layout
from harness.systems.base import Request
from harness.systems.structural import formulas
from harness.systems.structural.words import KINDS, TreeBM25, words


@pytest.mark.slow
@pytest.mark.parametrize("pieces", KINDS)
def test_every_formula_that_shares_a_piece_with_the_query_is_found_and_no_other(tmp_path: Path, pieces: str) -> None:
    corpus, kind = load_corpus("mini-formulas"), KINDS[pieces]
    topics = load_collection("mini-task2").topics()
    run = TreeBM25(pieces)(Request(topics, corpus, tmp_path)).to_dict()
    known, asked = formulas.read(corpus, kind), formulas.queries(topics, corpus, kind)
    texts = [set(words(tree, kind).split()) for tree in known.trees]
    places = list(zip(known.ids.tolist(), known.tree.tolist(), strict=True))
    assert len(run) == len(asked) == 28
    for topic, docs in run.items():
        wanted = {word for tree in asked[topic] for word in words(tree, kind).split()}
        assert set(docs) == {doc.decode() for doc, at in places if at >= 0 and wanted & texts[at]}


def test_words_of_a_tree() -> None:
    """x to the square, then plus, then 1: pairs of neighbours and of symbols two edges apart, and the ends of lines."""
    tree = layout.read_latex("x^2+1").tree
    found = words(tree, "slt").split()
    assert len(found) == len(set(found))
    assert any(word.startswith("V!x|N!2|") for word in found)
    assert any(word.startswith("V!x|N!1|") for word in found)  # two edges apart


def test_no_other_pieces() -> None:
    with pytest.raises(HarnessError, match="did you mean 'symbol_pairs'"):
        TreeBM25("symbol_pair")


def test_a_corpus_of_posts_is_refused(tmp_path: Path) -> None:
    topics, corpus = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    with pytest.raises(HarnessError, match="expected a corpus of formulas; mini-answers has a document with none or"):
        TreeBM25()(Request(topics, corpus, tmp_path))
