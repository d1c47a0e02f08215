from __future__ import annotations

import gzip
import hashlib
import html
import json
import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from case_tables import literals
from corpora_tools import corpus, mathml, message, span
from hypothesis import given
from hypothesis import strategies as st

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus, Document, numbered_lines
from harness.collections.readers import arqmath as posts
from harness.data.markup import read_markup, repair_entities, trimmed, unwrapped
from harness.data.records import json_items
from harness.data.topics import Formula

Conf = Callable[[str, str, str], Path]


# --- markup: what only whole posts and rendered pages have ---


@pytest.mark.parametrize(
    ("markup", "text", "formulas", "nested"),
    [
        (span(mathml("x^2"), "7", "9"), "$x^2$", [Formula("7", "x^2", "9")], 0),
        (f"a{mathml('x')}b", "a$x$b", [Formula("", "x")], 0),
        # A formula without LaTeX is one.
        (span(mathml("")), "$ $", [Formula("1", "")], 0),
        (span(mathml("a&lt;b")), "$a<b$", [Formula("1", "a<b")], 0),
        (span("<?xml version='1.0'?> " + mathml("x")), "$x$", [Formula("1", "x")], 0),
        # A span without an id around others is no formula; one with an id is, and the others are not.
        (span(span(mathml("x"), "2", "3"), ""), "$x$", [Formula("2", "x", "3")], 1),
        (
            span(span("$x$", "2") + " and " + span("$y$", "3"), ""),
            "$x$ and $y$",
            [Formula("2", "x"), Formula("3", "y")],
            1,
        ),
        (span(span(span("$x$", "2"), ""), ""), "$x$", [Formula("2", "x")], 2),
        (span("a" + span("b", "2"), "1"), "ab", [Formula("1", "ab")], 1),
        (span("<span>a</span>b", "1"), "ab", [Formula("1", "ab")], 0),
        # An element that is never closed hides nothing.
        ("<math alttext='x'> rest", "rest", [], 0),
        ("a<script>1 < 2</script>b<style>c</style>d", "abd", [], 0),
        ("<script>never closed", "", [], 0),
        ('<a title="x > y">b</a>', "b", [], 0),
        ('<a title="never closed>b</a> c', "b c", [], 0),
        ("a <!-- never closed, b", "a <!-- never closed, b", [], 0),
        # A formula span that never ends has one formula, and those after it are read.
        (
            '<span class="math-container" id="1">$a&lt;b$ so ' + span("$y$", "2") + " c",
            "$a<b$ so $y$ c",
            [Formula("1", "a<b"), Formula("2", "y")],
            1,
        ),
        # An end that a parser of HTML made part of a tag.
        (
            '<span class="math-container">$1<x$< span=""> and ' + span("$y$") + "</x$<>",
            "$1<x$ and $y$",
            [Formula("", "1<x"), Formula("1", "y")],
            0,
        ),
    ],
)
def test_markup_of_posts(markup: str, text: str, formulas: list[Formula], nested: int) -> None:
    found = read_markup(markup)
    assert (found.text, list(found.formulas), found.nested) == (text, formulas, nested)


@pytest.mark.parametrize(("latex", "expected"), literals("collections/corpora_line_breaks_in_latex_are_undone"))
def test_line_breaks_in_latex_are_undone(latex: str, expected: str) -> None:
    assert unwrapped(latex) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("start", "part", "times"), literals("collections/hostile_markup"))
def test_hostile_markup_takes_no_time(start: str, part: str, times: int) -> None:
    hostile = start + part * times
    read_markup(hostile)
    read_markup(f'<span class="math-container">{hostile}')
    read_markup(f'<span class="math-container">{hostile}</span> --> ]]> </b> " >')
    unwrapped(hostile)
    repair_entities(hostile)


LATEX = st.text(st.sampled_from("ab<>=/ \\{}^_&;#$'\"pinbr\n"), max_size=40)


@pytest.mark.parametrize(("given", "latex"), literals("collections/corpora_entities_in_latex"))
def test_entities_in_latex(given: str, latex: str) -> None:
    assert repair_entities(given) == latex
    # In a post, and in the MathML of a page.
    for markup in (span(html.escape(f"${given}$")), span(mathml(html.escape(given)))):
        found = read_markup(markup)
        assert [formula.latex for formula in found.formulas] == [latex]
        assert " ".join(latex.split()) in found.text
        assert found.repaired == (given != latex)


@given(LATEX)
def test_a_formula_comes_back_from_a_post_and_from_a_page(latex: str) -> None:
    latex = repair_entities(latex)
    for markup in (span(f"$${html.escape(latex)} $$"), span(mathml(html.escape(latex) + " "))):
        found = read_markup(f"<p>so {markup} is</p>")
        expected = unwrapped(latex + " ")
        assert [formula.latex for formula in found.formulas] == [expected]
        assert found.text.startswith("so ")
        assert found.text.endswith(" is")
        assert (found.nested, found.unended, found.truncated, found.repaired) == (0, 0, 0, 0)


@given(st.text(st.sampled_from("ab<>=/ \\{}^_$pinbr\n"), max_size=40))
def test_a_formula_whose_signs_are_not_escaped_comes_back(latex: str) -> None:
    if not re.search(r"</[a-z]|<br[\s/>]|<!|<\?", latex):
        (formula,) = read_markup(span(f"$${latex} $$")).formulas
        assert formula.latex == trimmed(latex + " ")


# --- streams ---


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_lines_of_packed_files(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "f"
    path.write_bytes(pack(b"a\r\n\nb"))
    assert list(numbered_lines(path)) == [(1, b"a"), (2, b""), (3, b"b")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_that_is_cut_short(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "f"
    path.write_bytes(pack(bytes(range(256)) * 100)[:-20])
    assert message(lambda: list(numbered_lines(path))).startswith(f"{path}: compressed file is cut short or damaged: ")


def test_a_post_without_end_is_refused_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "posts.xml.gz"
    head = b'<posts>\n<row Id="1" PostTypeId="1" Title="T" Body="'
    path.write_bytes(gzip.compress(head + b"x" * (1 << 19) + b'" /></posts>'))
    assert [line for line, _ in posts.arqmath_rows(path)] == [2]
    path.write_bytes(gzip.compress(head + b"x" * (1 << 23)))
    assert message(lambda: list(posts.arqmath_rows(path))) == f"{path}:2: a post of more than 1048576 bytes"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert message(lambda: list(numbered_lines(tmp_path / "none"))) == f"{tmp_path / 'none'}: no such file"
    assert message(lambda: list(numbered_lines(tmp_path))) == f"{tmp_path}: is a folder, expected a file"


def test_objects_of_a_list_with_their_lines() -> None:
    assert list(json_items(b'\xef\xbb\xbf[ {"a": 1},\n\n {"b":\n 2} , {"c": 3}\n]\n', "f")) == [
        (1, {"a": 1}),
        (3, {"b": 2}),
        (4, {"c": 3}),
    ]
    assert list(json_items(b" [ ] ", "f")) == []


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        *literals("collections/corpora_faults_of_a_list_name_the_line"),
        (b"[\n" + b"[" * 100_000, "f:2: not valid JSON: too deep"),
    ],
)
def test_faults_of_a_list_name_the_line(data: bytes, fault: str) -> None:
    assert message(lambda: list(json_items(data, "f"))) == fault


# --- JSON lines ---


def test_documents_keep_formulas_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl.gz"
    row = {"id": "d", "name": "N", "formulas": [{"id": "f", "latex": "x", "visual_id": 3}, {"id": "g", "latex": "y"}]}
    content = json.dumps(row).encode()
    path.write_bytes(gzip.compress(content))
    made = Corpus("c", "C", "CC0", path, (("id", "id"), ("id", "title"), ("formulas", "formulas")), ("name", "id"))
    (document,) = made
    assert document == Document(
        "d", "d", formulas=(Formula("f", "x", "3"), Formula("g", "y")), columns={"name": "N", "id": "d"}
    )
    assert list(made.ids()) == ["d"]
    assert made.remarks() == {}
    assert made.digest() == hashlib.sha256(content).hexdigest()


def test_formulas_without_ids_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a", "f": ["x", "y^2"]}\n{"id": "b", "f": ["x"]}\n{"id": "c", "f": null}\n')
    found = [document.formulas for document in corpus(path, id="id", f="formulas")]
    assert found == [(Formula("f1", "x"), Formula("f2", "y^2")), (Formula("f1", "x"),), ()]


@pytest.mark.parametrize("keep", [(), ("nmae",)])
def test_a_column_that_no_line_has_is_a_slip(tmp_path: Path, keep: tuple[str, ...]) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a", "name": "x"}\n{"id": "b"}\n')
    fields = (("id", "id"), ("name" if keep else "nmae", "title"))
    made = Corpus("c", "C", "CC0", path, fields, keep)
    assert [d.id for d in islice(made, 2)] == ["a", "b"]
    assert message(lambda: list(made)) == f"{path}: no line has the column 'nmae', which corpus c takes"


def test_a_repeated_id_is_refused_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("".join(f'{{"id": "{name}"}}\n' for name in "abcdecd"))
    assert message(lambda: list(corpus(path, id="id"))) == f"{path}:6: document 'c' is on an earlier line already"
    path.write_text('{"id": "a"}\n{"id": "b"}\n')
    monkeypatch.setattr("harness.collections.corpus.hash", lambda _: 7, raising=False)  # that others share
    assert [document.id for document in corpus(path, id="id")] == ["a", "b"]


@pytest.mark.parametrize("key", ["id", "f", "other"])
@pytest.mark.parametrize("start", ["", " "])
def test_a_key_twice_is_refused(tmp_path: Path, key: str, start: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(f'{{"id": "a"}}\n{start}{{"id": "b", "f": ["x"], "other": 1, "{key}": "c"}}\n')
    found = message(lambda: list(corpus(path, id="id", f="formulas")))
    assert found == f"{path}:2: not a document: {key!r} occurs twice in an object"


@pytest.mark.parametrize(
    "row",
    [
        *('{"id": "a", "f": 5}', '{"id": "a", "f": "xy"}', '{"id": "a", "f": [{"id": "1"}]}', '{"id": "a", "f": [[]]}'),
        '{"id": "a", "f": ["x", {"id": "f1", "latex": "y"}]}',  # two formulas with one id
        '{"id": "a", "f": [{"id": null, "latex": "x"}]}',
        '{"id": "a", "f": [{"id": "1", "latex": {"a": 1}}]}',
    ],
)
def test_formulas_that_are_none(tmp_path: Path, row: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(row)
    found = message(lambda: list(corpus(path, id="id", f="formulas")))
    assert found.startswith(f"{path}:1: not a document: column 'f' is ")
    assert found.endswith(', expected formulas such as ["n^2"] or [{"id": "f1", "latex": "n^2"}]')


def test_a_corpus_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\nbroken\n')
    assert [document.id for document in islice(corpus(path, id="id"), 2)] == ["a", "b"]


# --- configuration ---

HEAD = "name: mine\ntitle: t\nlicence: l\n"
FOLDER = f"{{repository: a/b, commit: '{'0' * 40}', path: p, files: 2, sha256: '{'1' * 64}', licence: l}}"


@pytest.mark.parametrize(("text", "fault"), literals("collections/corpora_faults_of_a_configuration"))
def test_faults_of_a_configuration(conf: Conf, text: str, fault: str) -> None:
    path = conf("corpus", "mine", HEAD + text)
    assert message(lambda: load_corpus("mine")) == f"{path}: {fault}"


def test_loading_a_corpus_fetches_nothing(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_MIRROR", raising=False)
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    conf("corpus", "mine", f"{HEAD}reader: mse-pages\nfolder: {FOLDER}\nnotes: [chosen]\n")
    mine = load_corpus("mine")
    assert (mine.state(), mine.notes, [file.name for file in mine.files()]) == (
        "fetchable",
        ("chosen",),
        ["a/b@0000000/p/"],
    )
    assert "HARNESS_OFFLINE forbids the network" in message(lambda: mine.paths)


def test_the_digest_depends_on_source_and_reader(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("A:1 x\n")
    one = corpus(path, "ntcir-12").digest()
    assert one != corpus(path, id="id").digest() == hashlib.sha256(b"A:1 x\n").hexdigest()
    read = corpus(path, "ntcir-12")
    assert replace(read, reader=replace(read.reader, version=99)).digest() != one
    assert corpus(path, "ntcir-12").digest() == one
    assert replace(read, dollars="pandoc").digest() != one
    path.write_text("A:1 y\n")
    assert corpus(path, "ntcir-12").digest() != one
    assert corpus((path, path), "tangent").digest() != corpus(path, "tangent").digest()


def test_questions_without_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "posts.xml"
    formula = "&lt;span class=&quot;math-container&quot; id=&quot;{}&quot;&gt;$x_{}$&lt;/span&gt;"
    path.write_text(
        "<posts>\n"
        f'<row Id="7" PostTypeId="1" Title="Late" Tags="&lt;b&gt;" Body="none {formula.format(5, 5)}" />\n'
        '<row Id="1" PostTypeId="1" Title="Asked" Tags="&lt;a&gt;" Body="first" />\n'
        '<row Id="2" PostTypeId="2" ParentId="1" Body="an answer" />\n'
        '<row Id="3" PostTypeId="2" ParentId="99" Body="an answer without its question" />\n'
        '<row Id="9" PostTypeId="5" Body="something else" />\n'
        f'<row Id="8" PostTypeId="1" Title="With {formula.format(6, 6)}" Tags="" Body="" />\n'
        "</posts>\n",
        encoding="utf-8",
    )
    corpus = Corpus("questions", "", "", path, reader=posts.UNANSWERED)
    found = list(corpus)
    assert [document.id for document in found] == ["7", "8"]
    assert found[0].title == "Late" and "$x_5$" in found[0].body and found[0].tags == ("b",)
    assert [[formula.id for formula in document.formulas] for document in found] == [["5"], ["6"]]
    assert corpus.remarks()["questions without an answer"] == 2
    answered = {
        document.columns["question_id"]
        for document in Corpus("a", "", "", path, keep=("question_id",), reader=posts.POSTS)
    }
    assert not answered & {document.id for document in found}
    said = message(lambda: list(Corpus("questions", "", "", path, keep=("score",), reader=posts.UNANSWERED)))
    assert said == "corpus questions: keep: questions have no further columns; leave the key out"
