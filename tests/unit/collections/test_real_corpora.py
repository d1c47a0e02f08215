from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from case_tables import literals
from corpora_tools import corpus, mathml, message, span

from harness.collections.corpora import corpus_reader
from harness.collections.corpus import Corpus, Document
from harness.collections.readers.arqmath import check_arqmath_file
from harness.data.topics import Formula

# --- pages of Math Stack Exchange ---

PAGE = """<!DOCTYPE html>
<html><head><title>t</title></head><body>
<div class="row" id="question-title"><h1> Is {title} even? </h1><hr/></div>
<div class="question"><div question_id="{question}"  id="question"><p>Asked {asked}.</p></div>
<div id="tags"><span> parity </span><span> number-theory </span></div>
<div id="question-comments"><table><tr><td> A comment {comment} </td></tr></table></div></div>
<div class="answer"><div answer_id="{answer}" id="answer"><p>Yes:</p>{body}</div>
<div id="answer-comments"></div><div id="duplicate"></div></div></body></html>
"""


def page(folder: Path, question: int, answer: int, **parts: str) -> Path:
    values = {"question": str(question), "answer": str(answer), "title": span(mathml("x^2"), "1", "11")}
    values |= {"asked": span(mathml("y"), "2", "12"), "comment": span(mathml("z"), "3", "13"), "body": "so."} | parts
    path = folder / f"{question}_{answer}.html"
    path.write_text(PAGE.format(**values), encoding="utf-8")
    return path


def test_pages(tmp_path: Path) -> None:
    page(tmp_path, 10, 9, body=span(mathml("w% _1"), "4") + span(span(mathml("v"), "5", "15"), "") + span("", "6"))
    page(tmp_path, 2, 30, body="<p>no</p>", title=span(mathml("x.&lt;/p&gt;&lt;p&gt;So"), "1", "11"))
    page(tmp_path, 2, 4)
    pages = corpus(tmp_path, "mse-pages")
    assert list(pages.ids()) == ["4", "30", "9"]
    *_, last = pages
    formulas = (("1", "x^2", "11"), ("2", "y", "12"), ("4", "w_1"), ("5", "v", "15"), ("6", ""))
    said = ("9", "Is $x^2$ even?", "Yes: $w_1$$v$", ("parity", "number-theory"))
    columns = {"question": "Asked $y$.", "question_id": "10"}
    assert last == Document(*said, tuple(Formula(*each) for each in formulas), columns)
    assert pages.remarks() == {
        "answers": 3,
        "answers with formula spans around others": 1,
        "formula spans around others": 1,
        "formula spans without an end": 0,
        "formulas with repaired entities": 0,
        "formulas without their closing delimiter": 0,
        "formulas": 9,
        "formulas with tags of HTML in their LaTeX": 1,
        "formulas without LaTeX": 1,
        "formulas without a visual id": 2,
    }


def test_pages_keep_the_html_of_an_answer_on_request(tmp_path: Path) -> None:
    body = (
        f"<p>So {span(mathml('x^{2}&amp;lt;1'), '4', '14')}, {span('y', '5')} &amp; "
        '<a href="/a?b=1&amp;c=2" rel="nofollow">there</a><br/></p> <img alt="a picture" src="/p.png"/>'
        f"{span('$z$', '')}"
    )
    page(tmp_path, 10, 2_000_009, body=body)
    page(tmp_path, 10, 9, body="<hr/> one\ntwo <br/><hr>three</hr>")
    made = corpus(tmp_path, "mse-pages")
    plain, kept = list(made), list(replace(made, keep=("html",)))
    assert [document.columns["html"] for document in kept] == [
        "<p>Yes:</p><hr /> one\ntwo <br /><hr />three",  # as posts of that age are
        f"<p>Yes:</p><p>So {span('x^2&lt;1', '4')}, {span('y', '5')} &amp; "
        '<a href="/a?b=1&amp;c=2" rel="nofollow">there</a><br></p> <img src="/p.png" alt="a picture">'
        f"{span('$z$', '')}",
    ]
    without = [replace(d, columns={k: v for k, v in d.columns.items() if k != "html"}) for d in kept]
    assert without == plain
    assert "html" not in plain[0].columns
    fault = "corpus c: keep: 'htm' is unknown; did you mean 'html'?"
    assert message(lambda: list(replace(made, keep=("htm",)))) == fault


def break_page(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('id="question-title"', "", ": the page has no part 'question-title' where it should be, or is cut short"),
        ('id="tags"', 'id="tag"', ": the page has no part 'tags' where it should be, or is cut short"),
        (
            '<div id="answer-comments">',
            "",
            ": the page has no part 'answer-comments' where it should be, or is cut short",
        ),
        ('answer_id="2"', 'answer_id="3"', ":7: the answer is not 2, which the file's name says"),
        ('question_id="1"', 'question_id="12"', ":4: the question is not 1, which the file's name says"),
    ],
)
def test_faults_of_pages(tmp_path: Path, old: str, new: str, fault: str) -> None:
    path = page(tmp_path, 1, 2)
    break_page(path, old, new)
    assert message(lambda: list(corpus(tmp_path, "mse-pages"))) == f"{path}{fault}"


def test_a_page_that_is_cut_short(tmp_path: Path) -> None:
    path = page(tmp_path, 1, 2)
    whole = path.read_text()
    assert len(list(corpus(tmp_path, "mse-pages"))) == 1
    for end in range(0, whole.index('<div id="answer-comments">'), 40):
        path.write_text(whole[:end])
        assert message(lambda: list(corpus(tmp_path, "mse-pages"))).startswith(f"{path}: the page has no part ")
        assert message(lambda: list(corpus(tmp_path, "mse-pages").ids())).startswith(f"{path}: the page has no part ")


def test_other_faults_of_pages(tmp_path: Path) -> None:
    path = page(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes().replace(b"even", b"ev\xe9n"))
    assert message(lambda: list(corpus(tmp_path, "mse-pages"))) == f"{path}:3: byte 0xe9 is not UTF-8 text"
    path.unlink()
    page(tmp_path, 1, 2)
    second = page(tmp_path, 5, 2)
    expected = f"{second}: document '2' is on an earlier line already"
    assert message(lambda: list(corpus(tmp_path, "mse-pages"))) == expected
    odd = tmp_path / "index.html"
    odd.touch()
    expected = f"{odd}: the file's name is not QUESTION_ANSWER.html"
    assert message(lambda: list(corpus(tmp_path, "mse-pages"))) == expected


# --- formulas of these pages ---


def formulas_of(folder: Path) -> Corpus:
    return Corpus("c", "C", "CC0", folder, reader=corpus_reader("mse-formulas"), has_keys=True)


def test_each_formula_is_a_document_once_with_its_post(tmp_path: Path) -> None:
    page(tmp_path, 10, 30, body=span(mathml("w"), "4", "14") + span(mathml("v"), "") + span("", "6"))
    page(tmp_path, 10, 9, body=span(mathml("u"), "7"))
    found = formulas_of(tmp_path)
    # Question and title stand on both pages; those of the page that comes first are taken. No comments.
    assert [(d.id, d.formulas, d.body, dict(d.columns)) for d in found] == [
        ("1", (Formula("1", "x^2", "11"),), "$x^2$", {"post": "10"}),
        ("2", (Formula("2", "y", "12"),), "$y$", {"post": "10"}),
        ("7", (Formula("7", "u"),), "$u$", {"post": "9"}),
        ("4", (Formula("4", "w", "14"),), "$w$", {"post": "30"}),
        ("6", (Formula("6", ""),), "", {"post": "30"}),
    ]
    assert found.remarks() == {
        "formulas": 8,
        "formulas with repaired entities": 0,
        "formulas without LaTeX": 1,
        "formulas without a visual id": 2,
        "formulas without an id (left out)": 1,
        "repeats in another post": 0,
        "repeats of formulas (the first is kept)": 2,
        "repeats with other LaTeX or visual id": 0,
    }
    assert found.keys() == {"1": "11", "2": "12", "4": "14"}
    assert corpus(tmp_path, "mse-formulas").keys() is None


def test_repeated_formulas_are_compared(tmp_path: Path) -> None:
    page(tmp_path, 1, 2, asked=span(mathml("a&amp;lt;b&amp;#215;c"), "2", "12"))
    page(tmp_path, 1, 3, asked=span(mathml("a&lt;b\u00d7c"), "2", "12"), body=span(mathml("x^2"), "1", "11"))
    page(tmp_path, 1, 4, asked=span(mathml("b"), "2", "12"), title=span(mathml("x^2"), "1", "99"))
    documents = list(found := formulas_of(tmp_path))
    assert [(d.formulas[0], d.columns["post"]) for d in documents] == [
        (Formula("1", "x^2", "11"), "1"),
        (Formula("2", "a<b\u00d7c", "12"), "1"),
    ]
    remarks = found.remarks()
    assert remarks["formulas with repaired entities"] == 1
    assert remarks["repeats of formulas (the first is kept)"] == 5
    assert remarks["repeats in another post"] == 1  # formula 1 stands in answer 3 too
    assert remarks["repeats with other LaTeX or visual id"] == 2  # both on the last page


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"a &lt b", "a < b"),
        (r"a &lt & b", r"a &lt & b"),
        (r"a&b;c", "a&b;c"),
        (r"1&amp;2&quot;", '1&2"'),
        (r"\&lt;", r"\<"),
        ("&#99999999;",) * 2,
    ],
)
def test_only_what_was_escaped_is_unescaped(tmp_path: Path, latex: str, plain: str) -> None:
    page(tmp_path, 1, 2, body=span(mathml(escape(latex, {'"': "&quot;"})), "9"))
    assert [d.formulas[0].latex for d in formulas_of(tmp_path) if d.id == "9"] == [plain]


# --- posts of ARQMath ---


def post(**attributes: str) -> str:
    return "  <row " + " ".join(f"{name}={quoteattr(value)}" for name, value in attributes.items()) + " />\n"


def posts_file(path: Path, *posts: str) -> Corpus:
    path.write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "".join(posts) + "</posts>\n", encoding="utf-8"
    )
    return corpus(path, "arqmath-posts")


QUESTION = post(Id="5", PostTypeId="1", Title="Is &lt; x?", Tags="<calculus><limits>", Body="<p>why</p>")
ANSWER = post(Id="9", PostTypeId="2", ParentId="5", Body=f"<p>as {span('$x &lt; y$', '3')}</p>")


def test_posts(tmp_path: Path) -> None:
    early = post(Id="2", PostTypeId="2", ParentId="5", Body=span(span("$z$", "4"), "") + span("", "5"))
    orphan = post(Id="11", PostTypeId="2", ParentId="77", Body="alone")
    wiki = post(Id="12", PostTypeId="4", Body="of a tag")
    bars = post(Id="6", PostTypeId="1", Title=f"t {span('$q$', '8')}", Tags="|a|b-c|")
    other = post(Id="13", PostTypeId="2", ParentId="6", Body="")
    made = posts_file(tmp_path / "Posts.xml", early, QUESTION, bars, ANSWER, orphan, wiki, other)
    expected = [
        Document("2", "Is < x?", "$z$", ("calculus", "limits"), (Formula("4", "z"), Formula("5", ""))),
        Document("9", "Is < x?", "as $x < y$", ("calculus", "limits"), (Formula("3", "x < y"),)),
        Document("11", "", "alone"),
        Document("13", "t $q$", "", ("a", "b-c"), (Formula("8", "q"),)),
    ]
    assert list(made) == expected == list(made)
    assert made.remarks() == {
        "answers": 4,
        "answers without their question": 1,
        "formula spans around others": 1,
        "formula spans without an end": 0,
        "formulas with repaired entities": 0,
        "formulas without their closing delimiter": 0,
        "formulas": 4,
        "formulas without LaTeX": 1,
        "posts of other kinds": 1,
    }


ASKED = post(
    Id="5",
    PostTypeId="1",
    AcceptedAnswerId="09",
    Title=f"Is {span('$p$', '1')} even?",
    Body=f"<p>why\0 é {span('$y$', '2')}</p>".replace("\0", "&lt;"),
    Tags="<limits>",
)
OPEN = post(Id="7", PostTypeId="1", Title="open", Body="what?")
# Names an answer of another question, which that does not make accepted; it has no text.
STRANGE = post(Id="8", PostTypeId="1", AcceptedAnswerId="4", Title="strange")
ANSWERS = (
    post(Id="4", PostTypeId="2", ParentId="5", Body="first"),
    ANSWER,
    post(Id="10", PostTypeId="2", ParentId="7", Body="nobody took it"),
    post(Id="11", PostTypeId="2", ParentId="8", Body="odd"),
    post(Id="12", PostTypeId="2", ParentId="77", Body="alone"),
)


def test_questions_and_accepted_answers_of_posts(tmp_path: Path) -> None:
    plain = posts_file(tmp_path / "Posts.xml", *ANSWERS[:3], ASKED, OPEN, STRANGE, *ANSWERS[3:])
    made = replace(plain, keep=("question", "question_id", "accepted"))
    asked = "why< é $y$"
    head = (Formula("1", "p"), Formula("2", "y"))
    columns = [
        {"question": asked, "question_id": "5", "accepted": "no"},
        {"question": asked, "question_id": "5", "accepted": "yes"},
        {"question": "what?", "question_id": "7", "accepted": "no"},
        {"question": "", "question_id": "8", "accepted": "no"},
        {"question": "", "question_id": "77", "accepted": "no"},
    ]
    documents = list(made)
    assert [document.columns for document in documents] == columns
    assert documents[0] == Document("4", "Is $p$ even?", "first", ("limits",), head, columns[0])
    assert documents[1].formulas == (*head, Formula("3", "x < y"))  # of title, question and answer
    assert made.remarks() == {
        "accepted answers": 1,
        "answers": 5,
        "answers without their question": 1,
        "formula spans around others": 0,
        "formula spans without an end": 0,
        "formulas with repaired entities": 0,
        "formulas without their closing delimiter": 0,
        "formulas": 5,
        "formulas without LaTeX": 0,
        "questions with an accepted answer": 2,
        "questions without text": 1,
    }
    bare = list(plain)
    assert [replace(d, columns={}, formulas=()) for d in documents] == [replace(d, formulas=()) for d in bare]
    assert bare[1].formulas == (Formula("1", "p"), Formula("3", "x < y"))


def test_the_score_of_an_answer_is_kept_as_it_stands(tmp_path: Path) -> None:
    scored = [post(Id=str(n), PostTypeId="2", ParentId="5", Body="b", Score=s) for n, s in ((1, "50"), (2, "-3"))]
    made = replace(posts_file(tmp_path / "Posts.xml", ASKED, *scored, ANSWERS[0]), keep=("score",))
    assert [document.columns for document in made] == [{"score": "50"}, {"score": "-3"}, {"score": ""}]


def test_a_column_that_posts_do_not_have(tmp_path: Path) -> None:
    made = replace(posts_file(tmp_path / "Posts.xml", ASKED, ANSWER), keep=("question", "acepted"))
    assert message(lambda: list(made)) == "corpus c: keep: 'acepted' is unknown; did you mean 'accepted'?"


def test_an_accepted_answer_that_is_no_id(tmp_path: Path) -> None:
    made = posts_file(tmp_path / "Posts.xml", ASKED.replace('"09"', '"nine"'), ANSWER)
    fault = f"{made.path}:3: AcceptedAnswerId 'nine' is not a whole number"
    assert message(lambda: list(replace(made, keep=("accepted",)))) == fault
    assert message(lambda: check_arqmath_file(made.path)) == fault  # found on arrival
    assert len(list(made)) == 1  # nobody asked for it


BOMB = '<!DOCTYPE posts [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n<posts>\n  <row Id="&b;"/></posts>'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *literals("collections/real_corpora_faults_of_posts"),
        ("<posts>\n" + QUESTION + ANSWER + QUESTION + "</posts>", ":4: post 5 is on line 2 already"),
        (
            "<posts>\n" + QUESTION + ANSWER + ANSWER.replace('"9"', '"09"') + "</posts>",
            ":4: post 9 is on line 3 already",
        ),
    ],
)
def test_faults_of_posts(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "Posts.xml"
    path.write_text(text)
    assert message(lambda: list(corpus(path, "arqmath-posts"))).startswith(f"{path}{fault}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_an_entity_cannot_hide_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "Posts.xml"
    path.write_bytes(('<?xml version="1.0" encoding="utf-16"?>' + BOMB).encode(encoding))
    fault = message(lambda: list(corpus(path, "arqmath-posts")))
    assert fault.startswith(f"{path}:1: ")
    assert "not allowed" in fault or "not valid XML" in fault


def test_posts_cut_short_at_any_place_are_a_fault(tmp_path: Path) -> None:
    made = posts_file(tmp_path / "Posts.xml", QUESTION, ANSWER)
    whole = made.path.read_bytes()
    for end in range(0, len(whole) - 2, 7):
        made.path.write_bytes(whole[:end])
        assert message(lambda: list(made)).startswith(f"{made.path}:")


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    made = posts_file(tmp_path / "Posts.xml", QUESTION, ANSWER)
    expected = "temporary file of titles: cannot be written: No space left on device"
    assert message(lambda: list(made)) == expected
