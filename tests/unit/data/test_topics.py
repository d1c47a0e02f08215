from __future__ import annotations

import html
import json
from functools import partial

import pytest
from case_tables import literals
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refusal

from harness.data.markup import plain, trimmed
from harness.data.topic_files import READERS, arqmath_xml, attributes_csv, jsonl, trec, tsv
from harness.data.topics import Formula, Topic, Topics
from harness.errors import FormatError
from harness.papers.crossmath.readers import crossmath_tsv

TWO = b"""<?xml version="1.0" encoding="utf-8"?>
<Topics>
  <Topic number="A.1">
    <Title>Is &lt;span class="math-container" id="q_1"&gt;$x^2$&lt;/span&gt; even?</Title>
    <Question>&lt;p&gt;Let
      &lt;span class="math-container" id="q_2"&gt;$$a &amp;amp;lt; b$$&lt;/span&gt;.&lt;/p&gt;</Question>
    <Tags>algebra-precalculus, functions ,</Tags>
  </Topic>
  <Topic number="A.2"><Title>Second</Title></Topic>
</Topics>
"""


def span(text: str, name: str = "q_1") -> str:
    return f'<span class="math-container" id="{name}">{text}</span>'


# HTML


@pytest.mark.parametrize(("markup", "text", "formulas"), literals("data/topics_text_and_formulas_of_markup"))
def test_text_and_formulas_of_markup(markup: str, text: str, formulas: list[tuple[str, str]]) -> None:
    assert plain(markup) == (text, tuple(Formula(*formula) for formula in formulas))


@given(st.text(alphabet="<>/&;!-$\\pspan brclass='\"=math-container x\n", max_size=60))
@example("<span class='math-container'")
@example("<!")
@example("<![CDATA[")
@example("&#;")
def test_any_markup_is_read(markup: str) -> None:
    text, formulas = plain(markup)
    assert text == " ".join(text.split())
    assert all(formula.latex == trimmed(formula.latex) for formula in formulas)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=50))
def test_escaped_text_comes_back(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    assert plain(f"<p>{escaped}</p>") == (" ".join(text.split()), ())


def test_blanks_in_a_formula_take_no_time() -> None:
    _, formulas = plain(span("$" + " " * 200_000 + "x"))
    assert formulas == (Formula("q_1", "x"),)


# XML


def test_topics_of_the_organisers() -> None:
    first, second = arqmath_xml(TWO, "f")
    assert first == Topic(
        "A.1",
        "Is $x^2$ even?",
        "Let $$a < b$$.",
        ("algebra-precalculus", "functions"),
        (Formula("q_1", "x^2"), Formula("q_2", "a < b")),
        "eng",
    )
    assert second == Topic("A.2", "Second")


def test_formulas_of_topics_are_counted() -> None:
    around = '<span class="math-container">$' + span("y", "q_2") + "$</span>"
    body = f"<p>{span('$a &amp;amp;lt; b$', 'q_3')} {span('$ $', 'q_4')} {span('$$|x', 'q_5')} {around}</p>"
    topic = f"<Title>{html.escape(span('$M<x$'))}</Title><Question>{html.escape(body)}</Question>"
    (found,) = topics = arqmath_xml(f'<T><Topic number="1">{topic}</Topic></T>'.encode(), "f")
    assert [formula.latex for formula in found.formulas] == ["M<x", "a < b", "", "|x", "y"]
    assert (found.title, found.body) == ("$M<x$", "$a < b$ $ $ $$|x$$ $y$")
    assert topics.remarks == {
        "formulas": 5,
        "formulas without LaTeX": 1,
        "formulas with repaired entities": 1,
        "formulas without their closing delimiter": 1,
        "formula spans around others": 1,
        "formula spans without an end": 0,
    }
    assert topics.with_attributes({}).remarks == topics.remarks


def test_formulas_in_markup_that_is_not_escaped() -> None:
    data = '<T><Topic number="1"><Title>If <span class="math-container" id="q_1">$a &lt; b$</span>?</Title></Topic></T>'
    (topic,) = arqmath_xml(data.encode(), "f")
    assert (topic.title, topic.formulas) == ("If $a < b$?", (Formula("q_1", "a < b"),))


def test_the_language_is_what_the_reader_is_told() -> None:
    assert {topic.language for topic in arqmath_xml(TWO, "f", "hrv")} == {"hrv"}


def test_markup_that_is_not_escaped_is_read_without_it() -> None:
    (topic,) = arqmath_xml(b'<T><Topic number="1"><Title>a <b>bold</b> word</Title></Topic></T>', "f")
    assert topic.title == "a bold word"


@pytest.mark.parametrize(("data", "expected"), literals("data/topics_faults_of_xml_name_the_line"))
def test_faults_of_xml_name_the_line(data: bytes, expected: str) -> None:
    assert refusal(lambda: arqmath_xml(data, "f")) == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_an_entity_cannot_hide_in_another_encoding(encoding: str) -> None:
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE T [<!ENTITY x "y">]><T><Topic number="1">&x;</Topic></T>'
    assert refusal(lambda: arqmath_xml(text.encode(encoding), "f")) == "f:1: byte 0x00 is not UTF-8 text"


def test_a_declared_encoding_is_obeyed() -> None:
    data = '<?xml version="1.0" encoding="iso-8859-1"?><T><Topic number="1"><Title>é</Title></Topic></T>'
    assert arqmath_xml(data.encode("latin-1"), "f").by_id()["1"].title == "é"


# CrossMath


def test_translated_topics() -> None:
    data = "\ufeffA.1\tNaslov $x$\tTijelo\u2028 <p> $$y$$\talgebra,functions\r\n\r\nA.2\tDrugi\t\t\n".encode()
    first, second = crossmath_tsv(data, "f", "hrv")
    found = (Formula("q_1", "x"), Formula("q_2", "y"))
    assert first == Topic("A.1", "Naslov $x$", "Tijelo\u2028 <p> $$y$$", ("algebra", "functions"), found, "hrv")
    assert second == Topic("A.2", "Drugi", "", (), (), "hrv")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "f: no topics found"),
        (b"\n \n", "f: no topics found"),
        (b"A.1\tt\tb\tx\n\nA.2\tt\n", "f:3: 2 columns, expected 4 (id title body tags)"),
        (b"A.1\tt\tb\tx\ty\n", "f:1: 5 columns, expected 4 (id title body tags)"),
        (b"A.1\tt\tb\tx\n\n\nA.1\tt\tb\tx\n", "f:4: topic 'A.1' is on line 1 already"),
        (b"A.1\tt\tb\tx\nA.2\t\xe9\tb\tx\n", "f:2: byte 0xe9 is not UTF-8 text"),
        (b"\tt\tb\tx\n", "f:1: topic id '' is empty or holds blanks or unprintable characters"),
    ],
)
def test_faults_of_translated_topics_name_the_line(data: bytes, expected: str) -> None:
    assert refusal(lambda: crossmath_tsv(data, "f", "hrv")) == expected


# Tables of two columns, and TREC's form


def test_topics_in_two_columns() -> None:
    first, second = tsv("Q1\tWhat is $i$? \r\n\nQ2\tπ\n".encode(), "f")
    assert first == Topic("Q1", "What is $i$?", formulas=(Formula("q_1", "i"),))
    assert second == Topic("Q2", "π")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "f: no topics found"),
        (b"Q1\tx\nQ2 y\n", "f:2: 1 column, expected an id, a tab and the topic's text"),
        (b"Q1\tx\ty\n", "f:1: 3 columns, expected an id, a tab and the topic's text"),
        (b"Q1\t \n", "f:1: 2 columns, expected an id, a tab and the topic's text"),
        (b"Q 1\tx\n", "f:1: topic id 'Q 1' is empty or holds blanks or unprintable characters"),
        (b"Q1\tx\nQ1\ty\n", "f:2: topic 'Q1' is on line 1 already"),
        (b"Q1\tx\nQ2\t\xe9\n", "f:2: byte 0xe9 is not UTF-8 text"),
    ],
)
def test_faults_of_two_columns_name_the_line(data: bytes, expected: str) -> None:
    assert refusal(lambda: tsv(data, "f")) == expected


OF_TREC = """
<top>
<num> Number: 301
<title> International   Organized Crime

<desc> Description:
Identify organizations that take
part in $a<b$ activity.

<narr> Narrative:
Description: must name one.
</top>

<TOP>
<NUM>M.2</NUM>
<dom> Domain: none
<title>Topic: Sums</title>
</TOP>
"""


def test_topics_of_trec() -> None:
    first, second = trec(OF_TREC.encode(), "f", "deu")
    body = "Identify organizations that take part in $a<b$ activity.\nDescription: must name one."
    assert first == Topic("301", "International Organized Crime", body, (), (Formula("q_1", "a<b"),), "deu")
    assert second == Topic("M.2", "Sums", language="deu")


@pytest.mark.parametrize(("data", "expected"), literals("data/topics_faults_of_trecs_form_name_the_line"))
def test_faults_of_trecs_form_name_the_line(data: str, expected: str) -> None:
    assert refusal(lambda: trec(data.encode(), "f")) == expected


def test_text_that_is_not_utf_8_is_a_fault_of_its_line() -> None:
    assert refusal(lambda: trec(b"<top>\n<num>1\n<title>\xe9</top>", "f")) == "f:3: byte 0xe9 is not UTF-8 text"


# JSON lines


def test_topics_of_our_own_form() -> None:
    full = {
        "id": "M.1",
        "title": "t",
        "body": "b",
        "tags": ["x", "y"],
        "formulas": [{"id": "f1", "latex": "x^2"}],
        "language": "ces",
        "attributes": {"difficulty": "Low", "year": 3},
    }
    data = json.dumps(full) + '\n\n{"id": "M.2", "title": "s", "formulas": ["x", "y"]}\n'
    first, second = jsonl(data.encode(), "f", "spa")
    assert first == Topic(
        "M.1", "t", "b", ("x", "y"), (Formula("f1", "x^2"),), "ces", {"difficulty": "Low", "year": "3"}
    )
    assert second == Topic("M.2", "s", formulas=(Formula("f1", "x"), Formula("f2", "y")), language="spa")


KEYS = "id, title, body, tags, formulas, language, attributes"
FORMULAS = 'expected formulas such as ["n^2"] or [{"id": "f1", "latex": "n^2"}]'


@pytest.mark.parametrize(("line", "expected"), literals("data/topics_faults_of_our_own_form_name_the_line"))
def test_faults_of_our_own_form_name_the_line(line: str, expected: str) -> None:
    data = '{"id": "0", "title": "t"}\n\n' + line + "\n"
    assert refusal(lambda: jsonl(data.encode(), "f")) == f"f:3: not a topic: {expected}"


def test_lines_of_another_form_are_said_to_be_no_json() -> None:
    expected = "f:1: expected a JSON object on each line; for other formats set reader: tsv or trec"
    assert refusal(lambda: jsonl(b"M.1\tWhat is $i$?\n", "f")) == expected


def test_json_that_is_too_deep_is_a_fault() -> None:
    assert refusal(lambda: jsonl(b"[" * 100_000, "f")) == "f:1: not valid JSON: too deep"
    assert refusal(lambda: jsonl(b'{"id": ' + b"[" * 100_000, "f")).startswith("f:1: not valid JSON: ")


def test_a_key_twice_is_a_fault() -> None:
    """Which of the two is meant is not known; Python would take the last one without a word."""
    for key in ("id", "title", "formulas"):
        line = f'{{"id": "M.2", "title": "t", "formulas": [], "{key}": "x"}}'
        found = refusal(partial(jsonl, f'{{"id": "M.1", "title": "t"}}\n{line}'.encode(), "f"))
        assert found == f"f:2: {key!r} occurs twice in an object"
    assert refusal(lambda: jsonl(b'{"id": "M.1", "formulas": [{"id": 1, "id": 2}]}', "f")).startswith(
        "f:1: 'id' occurs"
    )


@pytest.mark.parametrize("name", [r"\ud800", r"a\u0007", r"a b", ""])
def test_ids_that_no_run_can_hold_are_refused(name: str) -> None:
    shown = json.loads(f'"{name}"')
    found = refusal(lambda: jsonl(f'{{"id": "{name}", "title": "t"}}'.encode(), "f"))
    assert found == f"f:1: topic id {shown!r} is empty or holds blanks or unprintable characters"


def test_ids_as_long_as_those_of_a_run() -> None:
    """In bytes, as in run files."""
    for name, length in (("t" * 255, 0), ("t" * 256, 256), ("ž" * 127, 0), ("ž" * 128, 256)):
        topic = f'{{"id": "{name}", "title": "t"}}'.encode()
        formula = f'{{"id": "T", "title": "t", "formulas": [{{"id": "{name}", "latex": "x"}}]}}'.encode()
        if length:
            assert refusal(partial(jsonl, topic, "f")) == f"f:1: topic id of {length} bytes, at most 255"
            assert refusal(partial(jsonl, formula, "f")) == f"f:1: formula id of {length} bytes, at most 255"
        else:
            assert jsonl(topic, "f").ids() == {name}
            assert [part.id for one in jsonl(formula, "f") for part in one.formulas] == [name]


def test_an_id_twice_is_a_fault_on_its_line() -> None:
    line = b'{"id": "M.1", "title": "t"}\n'
    assert refusal(lambda: jsonl(line + b"\n" + line, "f")) == "f:3: topic 'M.1' is on line 1 already"


@given(st.binary(max_size=80))
@pytest.mark.parametrize("reader", READERS)
def test_any_bytes_give_topics_or_a_fault(reader: str, data: bytes) -> None:
    try:
        topics = READERS[reader](data, "f", "eng")
    except FormatError as error:
        assert all(str(problem).startswith("f") for problem in error.problems)
    else:
        assert len(topics) == len(topics.ids()) > 0


# Attributes


def test_attributes_of_topics() -> None:
    data = '\ufeffTopic,Difficulty,Category\r\nA.1, Low ,Proof\nA.2,High,\n\n"A.3","a, b",x\n'.encode()
    assert attributes_csv(data, "f", "Topic", {"difficulty": "Difficulty", "category": "Category"}) == {
        "A.1": {"difficulty": "Low", "category": "Proof"},
        "A.2": {"difficulty": "High"},
        "A.3": {"difficulty": "a, b", "category": "x"},
    }


def test_a_row_that_is_cut_short_has_fewer_attributes() -> None:
    found = attributes_csv(b"Topic,D,C\nA.1,x\n", "f", "Topic", {"d": "D", "c": "C"})
    assert found == {"A.1": {"d": "x"}}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "f:1: column 'Topic' is missing; found nothing"),
        (b"topic,D\n", "f:1: column 'Topic' is missing; found topic, D"),
        (b"Topic,d\n", "f:1: column 'D' is missing; found Topic, d"),
        (b"Topic,D\nA.1,\xff\n", "f:2: byte 0xff is not UTF-8 text"),
        (b"Topic,D\nA.1," + b"x" * 200_000 + b"\n", "f:2: not CSV: field larger than field limit (131072)"),
        (b"Topic,D\nA.1,x\n\nA.1,y\n", "f:4: topic 'A.1' is on an earlier line already"),
    ],
)
def test_faults_of_attributes(data: bytes, expected: str) -> None:
    assert refusal(lambda: attributes_csv(data, "f", "Topic", {"d": "D"})) == expected


def test_attributes_are_added_to_those_that_are_there() -> None:
    topics = Topics((Topic("1", "a", attributes={"x": "1", "y": "2"}), Topic("2", "b")))
    first, second = topics.with_attributes({"1": {"y": "3", "z": "4"}, "9": {"x": "5"}})
    assert first.attributes == {"x": "1", "y": "3", "z": "4"}
    assert second.attributes == {}
    assert topics.by_id()["1"].attributes == {"x": "1", "y": "2"}
    assert topics.ids() == {"1", "2"}
