r"""Reader of Math Stack Exchange pages rendered by MathDowsers: one HTML file per answer, `QUESTION_ANSWER.html`.

Formulas are Presentation MathML whose `alttext` is LaTeX, in spans with the `id` and `visual_id` of ARQMath. Documents
are either pages with their formulas, or single formulas.

Reconstructs the HTML of a post from its rendered page.

The posts of ARQMath hold formulas as LaTeX without dollars in spans with an id. The pages of `mse-pages` hold MathML in
their place, whose `alttext` is LaTeX normalised by LaTeXML. Where LaTeXML maps several spellings to one form, the most
common spelling is restored. Of 1,930 formulas in titles, whose original LaTeX is also in the pages, 81 % then have the
tokens of the original, compared to 57 % without restoration. Blanks, `\tag` and comments, which LaTeXML drops, cannot
be restored.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks
from harness.collections.forms import FileForm
from harness.data.markup import read_markup, repair_entities, unwrapped
from harness.data.topics import Formula
from harness.errors import format_error, os_errors
from harness.io.files import decoded

VERSION = 3
COLUMNS = ("question", "question_id", "html")
_NAME = re.compile(r"(\d+)_(\d+)\.html")
# The parts of a page in order; each ends where the next one begins.
_PARTS = ("question-title", "question", "tags", "question-comments", "answer", "answer-comments")
_DIVISION = {part: re.compile(rf'<div\b[^>]*\sid="{part}"[^>]*>') for part in _PARTS}

# HTML tags in a formula's LaTeX, from text between two formulas that the organisers mistook for a formula.
_TAG = re.compile(r"</?(?:p|em|strong|li|ul|ol|h\d|blockquote)>")
# The parts that formulas are taken from, and whether those belong to the question.
_HOLDERS = (("question-title", True), ("question", True), ("answer", False))


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the answers by question and answer id; columns `question`, the question's text, and `question_id`.

    If the corpus keeps the column `html`, it holds the answer's HTML as in the file of posts, reconstructed by
    `post_html`.

    Raises
    ------
    HarnessError
        The corpus keeps a column that is not in `COLUMNS`.
    FormatError
        A page is damaged.
    """
    corpus.check_kept(COLUMNS)
    for question, answer, path in _pages(corpus):
        yield (path, 0), _read_document(path, question, answer, "html" in corpus.keep, remarks)


def read_ids(corpus: Corpus, _: Remarks) -> Documents:
    """Yields the answers without their content; raises FormatError for a damaged page, as `read` does."""
    corpus.check_kept(COLUMNS)
    for question, answer, path in _pages(corpus):
        _parts(path, question, answer)
        yield (path, 0), Document(answer)


def read_formulas(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the formulas of titles, questions and answers; the column `post` is the id of the containing post.

    Every page of a question repeats the question's formulas: the first occurrence of an id is used, and others are
    compared with it. Formulas without an id are dropped. Comments are not read.
    """
    known: dict[str, tuple[str, Formula]] = {}
    for question, answer, path in _pages(corpus):
        for post, formula in _occurrences(path, question, answer, remarks):
            remarks["formulas"] += 1
            remarks["formulas without an id (left out)"] += not formula.id
            if not formula.id:
                continue
            first_post, first = known.setdefault(formula.id, (post, formula))
            if first is not formula:
                remarks["repeats of formulas (the first is kept)"] += 1
                remarks["repeats in another post"] += first_post != post
                remarks["repeats with other LaTeX or visual id"] += first != formula
                continue
            remarks["formulas without LaTeX"] += not formula.latex
            remarks["formulas without a visual id"] += not formula.visual_id
            body = f"${formula.latex}$" if formula.latex else ""
            yield (path, 0), Document(formula.id, body=body, formulas=(formula,), columns={"post": post})


def _pages(corpus: Corpus) -> list[tuple[str, str, Path]]:
    """Returns question id, answer id and file of each page, sorted by question and answer."""
    pages = []
    for path in corpus.path.iterdir():
        name = _NAME.fullmatch(path.name)
        if name is None:
            raise format_error(path, 0, "the file's name is not QUESTION_ANSWER.html")
        pages.append((int(name[1]), int(name[2]), path))
    return [(str(question), str(answer), path) for question, answer, path in sorted(pages)]


def _occurrences(path: Path, question: str, answer: str, remarks: Remarks) -> Iterator[tuple[str, Formula]]:
    """Yields (post id, formula) for each formula of a page."""
    parts = _parts(path, question, answer)
    for part, of_question in _HOLDERS:
        marked = read_markup(parts[part])
        remarks["formulas with repaired entities"] += marked.repaired
        for formula in marked.formulas:
            yield question if of_question else answer, formula


def _read_document(path: Path, question: str, answer: str, raw: bool, remarks: Remarks) -> Document:
    parts = _parts(path, question, answer)
    title, asked, body = (read_markup(parts[part]) for part in ("question-title", "question", "answer"))
    formulas = title.formulas + asked.formulas + body.formulas
    remarks["answers"] += 1
    remarks["answers with formula spans around others"] += bool(body.nested)
    for marked in (title, asked, body):
        remarks.update(marked.remarks())
    remarks["formulas without a visual id"] += sum(not formula.visual_id for formula in formulas)
    remarks["formulas with tags of HTML in their LaTeX"] += sum(bool(_TAG.search(f.latex)) for f in formulas)
    tags = tuple(read_markup(parts["tags"]).text.split())
    columns = {"question": asked.text, "question_id": question}
    if raw:
        columns["html"] = post_html(parts["answer"].rpartition("</div>")[0], int(answer))
    return Document(answer, title.text, body.text, tags, formulas, columns)


def _parts(path: Path, question: str, answer: str) -> dict[str, str]:
    """Returns the markup of each part of a page."""
    with os_errors(path, "read"):
        text = decoded(path.read_bytes(), path)
    begins, ends, at = [], [], 0
    for part in _PARTS:
        tag = _DIVISION[part].search(text, at)
        if tag is None:
            raise format_error(path, 0, f"the page has no part {part!r} where it should be, or is cut short")
        for key, expected in (("question", question), ("answer", answer)):
            if part == key and f'{key}_id="{expected}"' not in tag[0]:
                line = text.count("\n", 0, tag.start()) + 1
                raise format_error(path, line, f"the {key} is not {expected}, which the file's name says")
        at = tag.end()
        begins.append(at)
        ends.append(tag.start())
    return {part: text[begins[i] : ends[i + 1]] for i, part in enumerate(_PARTS[:-1])}


PAGES = CorpusReader("mse-pages", read, VERSION, read_ids=read_ids)
FORMULAS = CorpusReader("mse-formulas", read_formulas, VERSION, unique=True)
READERS = tuple(FileForm(each.name, documents=each) for each in (PAGES, FORMULAS))


# Approximate post id from which `<hr>` replaces `<hr />`. Among the ARQMath-1 answers for which the scores of
# CrossMath's authors clearly distinguish the two forms, 404165 has the older and 1159293 the newer one.
HTML5 = 500_000

_MATH = re.compile(r'<math\b[^>]*?\balttext="([^"]*)"[^>]*>.*?</math>|<math\b[^>]*>.*?</math>', re.DOTALL)
_VISUAL = re.compile(r'(<span\b[^>]*?) visual_id="[^"]*"')
_EMPTY = re.compile(r"<(br|hr|img)\b([^>]*?)\s*/?>")
_ALT_FIRST = re.compile(r'<img alt="([^"]*)" src="([^"]*)"')

_LEAK = re.compile(r"\$+\}? *\\par\b.*", re.DOTALL)
_PLAIN = re.compile(r"\\begin\{(p?matrix|cases)\}\{")
_PLAIN_END = re.compile(r"\\end\{(?:p?matrix|cases)\}(\}?)")
_UNKNOWN = re.compile(r"\\qvar@construct\{\$\}(?:\\par)?")
_PRIMES = re.compile(r"\^\{((?:\\prime)+)(?: ?([^{}]+))?\}")
_ALIGNED = re.compile(r"(\\begin\{aligned\}|&|\\\\) *\\displaystyle(?![A-Za-z]) ?")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{aligned\}")
_BIG = re.compile(r"(\\[bB]igg?[lrm]?)\{(\\?[^\\{}]|\\[{}]|\\[A-Za-z]+)\}")
_COLOUR = re.compile(r"\\color\[rgb\]\{(0,0,1|1,0,0|0,1,0)\}")
_COLOURS = {"0,0,1": "blue", "1,0,0": "red", "0,1,0": "green"}
_BEFORE = re.compile(r"^\{\}(?=[_^])|(?<=~)\{\}")
_SCRIPT = re.compile(r"([_^])\{([A-Za-z0-9]|\\[A-Za-z]+|[*+\-'])\}")


def post_html(markup: str, post: int) -> str:
    """Reconstructs the HTML of a post from its part of a page.

    Parameters
    ----------
    post : post id, which indicates the age of the post.

    Examples
    --------
    >>> post_html('<span class="math-container" id="7" visual_id="9"><math alttext="x^{2}"></math></span><br/>', 10**6)
    '<span class="math-container" id="7">x^2</span><br>'
    """
    markup = _MATH.sub(lambda math: html.escape(as_typed(html.unescape(math[1] or "")), quote=False), markup)
    end = " />" if post < HTML5 else ">"
    markup = _EMPTY.sub(rf"<\1\2{end}", _VISUAL.sub(r"\1", markup)).replace("</hr>", "").replace("</br>", "")
    return _ALT_FIRST.sub(r'<img src="\2" alt="\1"', markup).strip()


def as_typed(latex: str) -> str:
    r"""Converts LaTeX normalised by LaTeXML to the form that people usually type.

    Examples
    --------
    >>> as_typed(r"f^{\prime}(x_{1})=x^{n} y&gt;\bigg{(}0")
    "f'(x_1)=x^n y>\\bigg(0"
    """
    latex = unwrapped(repair_entities(latex))
    latex = _LEAK.sub("", _UNKNOWN.sub("?", latex))  # some formulas contain the following ones as well
    if r"\hfil" in latex:  # plain TeX `\pmatrix{...}`, which LaTeXML converts to half an environment
        latex = _PLAIN_END.sub(r"\1", _PLAIN.sub(r"\\\1{", latex)).replace(r"\hfil", "")
    latex = _PRIMES.sub(lambda m: "'" * m[1].count("p") + (f"^{{{m[2]}}}" if m[2] else ""), latex)
    if r"\begin{aligned}" in latex:
        latex = _ENVIRONMENT.sub(r"\\\1{align}", _ALIGNED.sub(r"\1", latex))
    latex = _BIG.sub(r"\1\2", latex).replace(r"\begin{array}[]", r"\begin{array}")
    latex = _COLOUR.sub(lambda m: rf"\color{{{_COLOURS[m[1]]}}}", latex)
    latex = _BEFORE.sub("", latex)

    def script(match: re.Match[str]) -> str:
        """Removes the braces; adds a blank where two letters or digits would become adjacent."""
        after = latex[match.end() : match.end() + 1]
        together = after.isalnum() and match[2][-1].isalnum()
        return f"{match[1]}{match[2]}{' ' if together else ''}"

    return _SCRIPT.sub(script, latex)
