"""The routes from LaTeX to trees in the systems that read formulas, with LaTeXML's conversion stood in for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from lexical_tools import corpus_of, message, topics_of
from structural_tools import encode, formula_topics, posts_corpus

from harness.collections.corpus import Corpus, Document
from harness.formulas.mathml import latexml
from harness.formulas.mathml.latexml import Markup
from harness.formulas.trees.tree import ParseCounts, tangent_string
from harness.store import artefacts, shards
from harness.systems.base import Request, System
from harness.systems.structural import formulas
from harness.systems.structural import tokens as formula_tokens
from harness.systems.structural.l2l import L2L
from harness.systems.structural.tangent import Tangent
from harness.systems.structural.tokens import FormulaBM25, tokens_by
from harness.systems.structural.tree import Structural

MISSING = "LaTeXML is not installed: apt-get install latexml"
POSTS: Mapping[str, Sequence[str]] = {"p1": ["x", "y"], "p2": [], "p3": ["x", "z"], "p4": ["bad", "y"]}
STRUCTURAL: list[Callable[..., System]] = [Structural, Tangent, L2L]
Calls = list[list[str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What LaTeXML was given. It makes one symbol of a formula: its LaTeX and a prime, so that routes can be told."""
    given: Calls = []

    def convert(latex: Iterable[str], *, workers: int) -> list[Markup]:
        some = list(latex)
        if some:
            given.append(some)
        return [
            Markup("", "", "undefined")
            if each == "bad"
            else Markup(f"<math><mi>{each}'</mi></math>", f"<math><ci>{each}'</ci></math>")
            for each in some
        ]

    monkeypatch.setattr(latexml, "convert", convert)
    monkeypatch.setattr(latexml, "version", lambda: "0.8.7")
    return given


@pytest.mark.parametrize("kind", formulas.KINDS)
def test_a_corpus_is_read_by_latexml(
    kind: str, calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = posts_corpus(tmp_path, POSTS)
    for _ in range(2):  # the second time from the store
        known = formulas.read(corpus, kind, "latexml")
        assert [tangent_string(tree) for tree in known.trees] == ["[V!x']", "[V!y']", "[V!z']"]
        assert known.tree.tolist() == [0, 1, 0, 2, -1, 1]
        assert known.counts == ParseCounts(5, {"LaTeXML: undefined": 1})
        assert f"({kind}, LaTeXML 0.8.7); parsed without errors: 5; with errors: 1 (LaTeXML: undefined)" in (
            capsys.readouterr().err
        )
    assert calls == [["x", "y", "z", "bad"]]
    assert "V!x'" not in [label for tree in formulas.read(corpus, kind).trees for label in tree.labels]


@pytest.mark.parametrize("kind", formulas.KINDS)
def test_an_engine_converts_formulas_to_the_same_files(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also formulas with errors, labels that need escapes, and formulas that return in later groups."""
    texts = ["x^2", "\\frac{a}{b", "", "a<b & c", '\\text{a "b", [c]}', "x^2", "\\sqrt{x}+é", "x^2"]
    corpus = posts_corpus(tmp_path, {f"p{n}": [*texts[n % 5 :], f"x_{{{n}}}"] for n in range(20)})
    made = []
    for engine in (None, shards.here):
        monkeypatch.setattr(formulas, "AHEAD", 3)
        folder = formulas_in(corpus, kind, engine)
        made.append({path.name: path.read_bytes() for path in folder.iterdir() if path.name != "spec.json"})
        artefacts.discard(folder)
    assert made[0] == made[1]
    assert "counts.json" in made[0]


def formulas_in(corpus: Corpus, kind: str, engine: shards.Engine | None) -> Path:
    with nullcontext() if engine is None else shards.spread_by(engine):
        formulas.read(corpus, kind)
    (found,) = artefacts.artefacts()  # and no shards
    return found.path


def test_trees_that_a_corpus_has_are_not_read_from_latex(calls: Calls) -> None:
    known = encode([Document("1", columns={"opt": "[V!x]", "slt": "[V!x]"})], "opt", "latexml")
    assert [tangent_string(tree) for tree in known.trees] == ["[V!x]"]
    assert calls == []


def test_artefacts_are_kept_by_route(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = posts_corpus(tmp_path, POSTS)
    own, other = formulas.spec(corpus, "opt"), formulas.spec(corpus, "opt", "latexml")
    assert set(own) == {"corpus", "digest", "columns", "kind", "code"}  # our own parsers are in the code
    assert other == {**own, "route": "LaTeXML 0.8.7"}
    monkeypatch.setattr(latexml, "version", lambda: "0.8.8")
    assert artefacts.key(formulas.spec(corpus, "opt", "latexml")) not in (artefacts.key(own), artefacts.key(other))
    assert formulas.spec(corpus, "opt") == own


@pytest.mark.parametrize("system", STRUCTURAL)
def test_structural_systems_rank_by_the_trees_of_their_route(
    system: Callable[..., System], calls: Calls, tmp_path: Path
) -> None:
    # To our parsers these are the same formula.
    corpus, topics = posts_corpus(tmp_path, {"one": ["{x}"], "two": ["x"]}), formula_topics(T=["x"])
    own = system()(Request(topics, corpus, tmp_path)).to_dict()
    assert own["T"]["one"] == own["T"]["two"] > 0
    assert calls == []
    faithful = system(route="latexml")(Request(topics, corpus, tmp_path)).to_dict()
    assert faithful["T"]["two"] > faithful["T"].get("one", 0)
    assert system()(Request(topics, corpus, tmp_path)).to_dict() == own


@pytest.mark.parametrize("system", [*STRUCTURAL, FormulaBM25])
def test_without_latexml_one_line_says_how_to_install_it(
    system: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    view = {"view": VIEW, "document": {"body": 1}} if system is FormulaBM25 else {}
    corpus = corpus_of(tmp_path, {"d": "$x$"}) if view else posts_corpus(tmp_path, POSTS)
    request = Request(topics_of(T="$x$") if view else formula_topics(T=["x"]), corpus, tmp_path)
    assert message(lambda: system(route="latexml", **view)(request)) == MISSING
    # Our own parsers do without.
    assert set(system(**view)(request).to_dict()) == {"T"}


# ---- tokens beside words -------------------------------------------------------------------------------------------

VIEW = {"name": "text", "formulas": "harness.systems.structural.tokens.symbol_pairs"}


@pytest.mark.parametrize("name", ["symbol_pairs", "wide_symbol_pairs", "operator_paths", "pairs_and_paths"])
def test_tokens_of_our_own_route_are_those_of_the_functions(name: str) -> None:
    latex = ["x^2+1", r"\frac{a}{b}", "", r"x+\unknown", "x^2+1"]
    assert tokens_by(name, latex, "own") == {each: getattr(formula_tokens, name)(each) for each in latex}


def test_tokens_are_those_of_latexmls_trees(calls: Calls) -> None:
    assert tokens_by("symbol_pairs", ["x", "bad"], "latexml") == {"x": ("#V!x',0!,",), "bad": ()}
    assert tokens_by("pairs_and_paths", ["x"], "latexml") == {"x": ("#V!x',0!,", "#V!x'")}


def test_words_and_tokens_are_kept_by_route(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path, {"same": "a $x$", "other": "a $y$ and ${x}$", "none": "a word"})
    topics = topics_of(T="$x$", U="word $y$")
    monkeypatch.setattr(formulas, "AHEAD", 1)

    def run(route: str) -> dict[str, dict[str, float]]:
        system = FormulaBM25(view=VIEW, document={"body": 1}, alpha=0.5, route=route)
        return system(Request(topics, corpus, tmp_path)).to_dict()

    own = run("own")
    assert set(own["T"]) == {"same", "other"}
    assert calls == []
    faithful = run("latexml")
    assert set(faithful["T"]) == {"same"}
    assert set(faithful["U"]) == {"other", "none"}
    assert calls[:3] == [["x", "y"], ["x"], ["y", "{x}"]]  # those of the topics at once, then the documents'
    assert run("own") == own
    calls.clear()
    assert run("latexml") == faithful
    assert not any("{x}" in each for each in calls)  # the documents' tokens come from the store


def test_functions_of_others_have_our_own_route_alone() -> None:
    view = {"name": "text", "formulas": "harness.systems.lexical.text.latex_tokens"}
    assert message(lambda: FormulaBM25(view=view, route="latexml")) == (
        "key 'view.formulas' is 'harness.systems.lexical.text.latex_tokens', which 'route: latexml' does not know; "
        "expected harness.systems.structural.tokens.NAME with one of symbol_pairs, wide_symbol_pairs, operator_paths, "
        "pairs_and_paths"
    )
    view["formulas"] = "harness.systems.structural.tokens.lru_cache"
    assert message(lambda: FormulaBM25(view=view, route="latexml")).startswith("key 'view.formulas' is 'lru_cache'; ")


def test_a_view_without_tokens_of_formulas_needs_no_latexml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    system = FormulaBM25(view={"name": "text"}, document={"body": 1}, route="latexml")
    assert set(system(Request(topics_of(T="word"), corpus_of(tmp_path, {"d": "a word"}), tmp_path)).to_dict()["T"]) == {
        "d"
    }
