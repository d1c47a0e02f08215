"""AMR in Penman notation by hand, and the parsers' loaders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from case_tables import literals
from refusals import refuses

from harness.errors import FormatError
from harness.systems.mathamr.graphs import amr
from harness.systems.mathamr.graphs.graph import Failure, Graph, Sentence, check_graph

penman = pytest.importorskip("penman", reason="penman is not installed")

CONTROL = '(w / want-01 :ARG0 (b / boy :quant 2) :ARG1 (g / go-02 :ARG0 b :mod "New York"))'


def test_a_sentence_by_hand() -> None:
    assert amr.read_sentence(CONTROL) == Sentence(
        ("want-01", "boy", "2", "go-02", "New York"),
        ((0, ":ARG0", 1), (1, ":quant", 2), (0, ":ARG1", 3), (3, ":ARG0", 1), (3, ":mod", 4)),
        0,
    )


def test_inversions_are_undone() -> None:
    """`:ARG0-of` and the edge the other way are one thing; relations that only end in -of are not turned."""
    one = amr.read_sentence("(b / boy :ARG0-of (g / go-02))")
    assert one == Sentence(("boy", "go-02"), ((1, ":ARG0", 0),), 0)
    other = amr.read_sentence("(g / go-02 :ARG0 (b / boy))")
    named = [{(s.labels[a], r, s.labels[b]) for a, r, b in s.edges} for s in (one, other)]
    assert named[0] == named[1]
    for role in (":consist-of", ":prep-on-behalf-of", ":prep-out-of"):
        assert amr.read_sentence(f"(r / ring {role} (g / gold))").edges == ((0, role, 1),)
    assert amr.read_sentence("(g / gold :consist-of-of (r / ring))").edges == ((1, ":consist-of", 0),)


def test_sentences_of_a_document_share_nodes() -> None:
    found = amr.read_sentence(
        "(d / document :snt1 (t / travel-01 :ARG0 (h / person)) :snt2 (m / multi-sentence :snt1 (g / go-02 :ARG0 h)"
        " :snt2 (s / see-01 :ARG0-of (x / x))) :same-as (y / y))"
    )
    names = [[found.labels[node] for node in part] for part in found.parts]
    assert names == [["travel-01", "person"], ["go-02", "person"], ["see-01", "x"]]
    assert found.labels[found.root] == "document"


@pytest.mark.parametrize(
    ("text", "reason"),
    [*literals("systems/amr_faults"), ("(a / b :x " * 40_000, "nested too deeply|Unexpected end")],
)
def test_a_fault_is_one_line(text: str, reason: str) -> None:
    refuses(reason, lambda: amr.read_sentence(text))


@pytest.mark.parametrize(
    "text",
    [
        '(a / "x) (y" :op1 "((#")',
        '(a / "x) (y"~e.3 :op1~e.4 "((#"~e.5,6)',
        '# ::id x ::date (y)\n# ::snt A ) and (.\n(a / "x) (y"\n   :op1 "((#")\n',
        '(a / "x) (y" :op1 "((#") \t\r\n\n\u00a0\n',
        '\n (a / "x) (y"\n  # a note (\n:op1 "((#")\n# the end )',
    ],
)
def test_nothing_is_behind_a_graph(text: str) -> None:
    """Brackets in strings and comments, alignments, comments and white space are no fault."""
    assert amr.read_sentence(text) == Sentence(("x) (y", "((#"), ((0, ":op1", 1),), 0)


def test_several_graphs_in_one_text() -> None:
    text = "# ::id 1\n(a / b)\n# ::id 2\n# ::snt y\n\n(a / c\n   :mod 5)  \n(d / e)\n\n# the end\n"
    assert [found.labels for found in amr.read_sentences(text)] == [("b",), ("c", "5"), ("e",)]
    refuses("text behind the graph", lambda: amr.read_sentences("(a / b)\n(c / d))\n(e / f)\n"))


TOPIC = (
    '"(f / find-01 :arg1 (s / string-entity :value MATH \n :math (U1 / plus :op0(V1 / x) :op0(O1 / SUP :op0(E1 / )'
    ' :op1(N1 / 2))) :arg0-of (c / cause-01)))"'
)


def test_published_topics(tmp_path: Path) -> None:
    path = tmp_path / "topics.tsv"
    path.write_text(f'B.1\t{TOPIC}\nB.2\t"(a / b"\nB.3\t"(a / b)"\n', encoding="utf-8")
    found = list(amr.read_topics(path))
    assert [name for name, _ in found] == ["B.1", "B.2", "B.3"]
    assert isinstance(found[1][1], Failure)
    assert str(found[1][1]).startswith(f"{path}: graph 2 (B.2): ")
    graph = found[0][1]
    assert isinstance(graph, Graph)
    check_graph(graph)
    assert graph.labels == ("find-01", "string-entity", "FORMULA_0", "U!plus", "V!x", "O!SUP", "E!", "N!2", "cause-01")
    assert graph.formulas[0].opt == (3, 8)
    assert graph.sentences == ((0, 1, 2, 8),)
    assert set(graph.edges) == {
        (0, ":arg1", 1),
        (1, ":value", 2),
        (2, ":opt", 3),
        (3, ":opt_0", 4),
        (3, ":opt_0", 5),
        (5, ":opt_0", 6),
        (5, ":opt_1", 7),
        (8, ":arg0", 1),
    }
    path.write_text("B.1\n", encoding="utf-8")
    with pytest.raises(FormatError, match=":1: 1 column, expected 2"):
        list(amr.read_topics(path))


@pytest.mark.parametrize(
    ("package", "load", "remedy"),
    [
        ("transition_amr_parser", amr.transition_amr, r"pip install --no-deps transition-neural-parser"),
        ("amrlib", amr.amrlib, r"mathir-harness\[amr\]"),
    ],
)
def test_a_parser_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, package: str, load: Callable[[str], object], remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.parse", None)
    refuses(f"is not installed.*{remedy}", lambda: load("nowhere"))


class _Transition:
    """What the package's documentation says of its parser."""

    @classmethod
    def from_pretrained(cls, name: str) -> _Transition:
        if name == "lost":
            raise RuntimeError("no weights\nat all")
        return cls()

    from_checkpoint = from_pretrained

    def tokenize(self, sentence: str) -> tuple[list[str], list[int]]:
        return sentence.split(), []

    def parse_docs(self, docs: list[list[list[str]]]) -> tuple[list[str], None]:
        return [f"(d / document{len(doc)})" for doc in docs], None

    def parse_sentences(self, batch: list[list[str]]) -> tuple[list[str], None]:
        return [f"(s / {tokens[0]})" for tokens in batch], None


def installed(monkeypatch: pytest.MonkeyPatch, name: str, **content: object) -> None:
    """A module with this content, in its package."""
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name.partition(".")[0], ModuleType(name.partition(".")[0]))
    monkeypatch.setitem(sys.modules, name, module)


def test_transition_amr_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "transition_amr_parser.parse", AMRParser=_Transition)
    assert amr.transition_amr()(["One .\nTwo .", "Three ."]) == ["(d / document2)", "(d / document1)"]
    assert amr.transition_amr("AMR3-structbart-L")(["one .\ntwo .", "three ."]) == [
        "(s / one)\n\n(s / two)",
        "(s / three)",
    ]
    refuses(r"AMR model 'lost': .*no weights at all", lambda: amr.transition_amr("lost"))


def test_transition_amr_where_the_package_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It divides by the number of texts, finds no window in a document of one token, and prints to standard output."""

    class Real(_Transition):
        def parse_docs(self, docs: list[list[list[str]]]) -> tuple[list[str], None]:
            sys.stdout.write(f"Parsing {1 / len(docs)}\n")
            assert all(sum(map(len, doc)) > 1 for doc in docs)
            return super().parse_docs(docs)

        def parse_sentences(self, batch: list[list[str]]) -> tuple[list[str], None]:
            sys.stdout.write(f"Running {1 / len(batch)}\n")
            return super().parse_sentences(batch)

    installed(monkeypatch, "transition_amr_parser.parse", AMRParser=Real)
    parse = amr.transition_amr()
    assert parse([]) == amr.transition_amr("AMR3-structbart-L")([]) == []
    assert parse(["F", "a b\nc", "", "G", "d e"]) == ["(s / F)", "(d / document2)", "", "(s / G)", "(d / document1)"]
    assert parse(["F"]) == ["(s / F)"]
    assert capsys.readouterr().out == ""


def test_amrlib_as_documented(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parser = SimpleNamespace(
        parse_sents=lambda sents, add_metadata: [f"(s / {s})" if s != "bad" else None for s in sents]
    )
    installed(monkeypatch, "amrlib", load_stog_model=lambda model_dir: parser)
    assert amr.amrlib(str(tmp_path))(["one\nbad", "two"]) == ["(s / one)\n\n", "(s / two)"]
    assert amr.read_sentences("(s / one)\n\n") == [Sentence(("one",), (), 0)]
    refuses("there is no such folder", lambda: amr.amrlib(str(tmp_path / "none")))


def test_a_chunk_that_cannot_be_read_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text fails only if none of its chunks can be read; what is left out of the others is counted."""

    def parse(texts: list[str]) -> list[str]:
        made = {"bad": "(x / ", "more": "(x / y) z", "none": ""}
        return [made.get(text, f"(x / {text})") for text in texts]

    monkeypatch.setattr(amr, "loaded", lambda package, model: parse)
    monkeypatch.setattr(amr, "parsed_sentences", lambda texts: (text.split("|") for text in texts))
    parser = amr.AMRParser(limit=1)
    found = parser(["one|more|three", "bad|more", "bad|none", "none", "bad|six", "none|seven"])
    assert [each.reason if isinstance(each, Failure) else [s.labels[0] for s in each] for each in found] == [
        ["one", "three"],
        "Unexpected end of input at line 1, column 5",
        "Unexpected end of input at line 1, column 5",
        [],
        ["six"],
        ["seven"],
    ]
    said = capsys.readouterr().err
    assert said.splitlines() == ["transition-amr: 3 of 12 chunks left out; first: text behind the graph at line 1"]
    parser(["one", "bad"])
    assert capsys.readouterr().err == ""  # a text that fails is counted by its failure


def test_a_parser_of_amr_without_penman(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no fault of the posts."""
    monkeypatch.setitem(sys.modules, "penman", None)
    refuses("penman is not installed", lambda: amr.AMRParser()([]))
