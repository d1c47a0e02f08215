"""Formulas in the files of topics and pages, compared with those that the readers give.

The files are read a second time by a few patterns that share no code with the readers: what stands in each
`math-container` of a title, question or answer (for pages, the `alttext` in it); in translated topics, what stands
between delimiters. Blanks do not count. Prints the table of bench/results/formulas-in-files.md.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.collections.corpora import load_corpus
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.markup import read_markup
from harness.data.topics import Formula
from harness.formulas.text.delimiters import formula_spans

YEARS = tuple(f"arqmath-{year}-task{task}" for year in (1, 2, 3) for task in (1, 2))
LANGUAGES = ("eng", "ces", "ces-paper", "hrv", "spa", "pes", "hin", "npi")
# Column -> name in the remarks of a reader.
COLUMNS = {
    "read": "formulas",
    "empty": "formulas without LaTeX",
    "repaired": "formulas with repaired entities",
    "cut short": "formulas without their closing delimiter",
    "around others": "formula spans around others",
}
_CONTAINER = re.compile(r'<span(?:="")?\s[^<>]*class="math-container"[^<>]*>')
_FIELD = re.compile(r"<(Title|Question)>(.*?)</\1>", re.DOTALL)
_CELL = re.compile(r"(&?\$?)\\displaystyle ?(amp|[lg]t|#39);")
_ENTITY = re.compile(r"&(?:#?\w+;|[lg]t)")


def fields(collection: str) -> list[str]:
    """Returns the titles and questions of ARQMath's XML, in turn, as HTML."""
    file = load_collection(collection).topic_file
    assert file is not None
    return [html.unescape(field) for _, field in _FIELD.findall(local(file.file).read_text(encoding="utf-8"))]


def page_fields() -> Iterator[str]:
    """Yields title, question and answer of each page of `mse-pages` as HTML."""
    for path in load_corpus("mse-pages").path.iterdir():
        _, _, page = path.read_text(encoding="utf-8").partition('id="question-title"')
        asked, _, rest = page.partition('id="tags"')
        yield asked
        yield rest.partition('id="answer"')[2].partition('id="answer-comments"')[0]


def contents(markup: str) -> Iterator[str]:
    """Yields the LaTeX of each `math-container` that is not around others, as it is in the file."""
    for piece in _CONTAINER.split(markup)[1:]:
        content, end, _ = piece.replace('< span="">', "</span>").partition("</span>")
        shown = re.search(r"""<math\b[^>]*?alttext=("[^"]*"|'[^']*')""", content)
        if shown or "<math" in content:
            yield html.unescape(shown[1][1:-1]) if shown else ""
        elif end:
            yield content


def packed(latex: str) -> str:
    """Returns LaTeX without delimiters, blanks, breaks of lines (`%`) and entities, however often escaped."""
    latex = re.sub(r"(?<!\\)%\s", "", latex)
    latex, before = _CELL.sub(lambda cell: f"&{cell[2]};{cell[1].lstrip('&')}", latex), ""
    while before != latex:
        before, latex = latex, _ENTITY.sub(lambda entity: html.unescape(entity[0]), latex)
    return re.sub(r"\s", "", latex).strip("$")


def row(name: str, file: Iterable[str], read: Iterable[Formula], remarks: Mapping[str, int]) -> tuple[str | int, ...]:
    """Returns a row of the table.

    Parameters
    ----------
    file : LaTeX of the formulas in the file.
    read : formulas of the reader.
    """
    wanted, found = Counter(map(packed, file)), Counter(packed(formula.latex) for formula in read)
    around = remarks.get("formula spans around others", 0)
    counts = (remarks.get(remark, 0) for remark in COLUMNS.values())
    return (name, wanted.total() + around, *counts, (wanted - found).total())


def rows() -> Iterator[tuple[str | int, ...]]:
    """Yields the rows of the table: name, formulas in the file, `COLUMNS`, formulas lost."""
    for name in YEARS:
        topics = load_collection(name).topics()
        inside = [latex for field in fields(name) for latex in contents(field)]
        if name.endswith("task1"):
            read = [formula for topic in topics for formula in topic.formulas]
        else:  # such topics keep one formula of those in their texts
            read = [formula for field in fields(name) for formula in read_markup(field).formulas]
        yield row(name, inside, read, topics.remarks)
    for language in LANGUAGES:
        topics = load_collection(f"crossmath-{language}").topics()
        inside = [span.latex for topic in topics for text in (topic.title, topic.body) for span in formula_spans(text)]
        yield row(f"crossmath-{language}", inside, (f for topic in topics for f in topic.formulas), topics.remarks)
    browsing = load_collection("ntcir-12-browsing")
    assert browsing.topic_file is not None
    text = local(browsing.topic_file.file).read_text(encoding="utf-8")
    asked = [line.partition("\t")[2] for line in text.splitlines() if line]
    topics = browsing.topics()
    yield row(browsing.name, asked, (formula for topic in topics for formula in topic.formulas), topics.remarks)
    inside = [latex for field in page_fields() for latex in contents(field)]
    remarks: Counter[str] = Counter()
    documents = list(load_corpus("mse-pages").documents(remarks))
    yield row("mse-pages", inside, (formula for document in documents for formula in document.formulas), remarks)


def markdown(table: Iterable[Sequence[str | int]]) -> str:
    """Returns the table as Markdown."""
    head = ("collection or corpus", "in the file", *COLUMNS, "lost")
    lines = [head, ("---", *("---:" for _ in head[1:])), *table]
    cells = ([f"{cell:,}" if isinstance(cell, int) else cell for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


if __name__ == "__main__":
    print(markdown(rows()))
