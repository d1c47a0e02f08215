"""NTCIR-12 Wikipedia formula browsing: topics, and the formulas to search.

Topics are lines `NTCIR12-MathWiki-N <TAB> LaTeX`; topics 1 to 20 are concrete formulas, 21 to 40 hold wildcards
`\\qvar{*1*}`. The corpus, a manual download, is a text file with one formula per line: its id as in the judgments
(`Binomial_coefficient:197`, article and number of the formula), a blank or tab, and its LaTeX.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks, numbered_lines
from harness.collections.forms import FileForm, First
from harness.data import markup, topic_files
from harness.data.topics import Formula, Topic, Topics
from harness.errors import format_error

VERSION = 2


def read_topics(data: bytes, path: str, language: str = "eng") -> Topics:
    """Returns the topics, each with its formula as title; attribute `kind`: concrete or wildcard."""
    numbered = []
    for number, line in topic_files.numbered_lines(data, path):
        name, tab, latex = line.partition("\t")
        if not tab or not latex.strip():
            raise format_error(path, number, "expected a topic id, a tab and LaTeX")
        latex = markup.trimmed(latex)
        kind = "wildcard" if "\\qvar" in latex else "concrete"
        formula = Formula(name, latex)
        numbered.append(
            (number, Topic(name, f"${latex}$", formulas=(formula,), language=language, attributes={"kind": kind}))
        )
    return topic_files.unique(numbered, path)


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields a document for each line."""
    path = corpus.path
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            name, *rest = line.decode("utf-8").split(None, 1)
        except UnicodeDecodeError:
            raise format_error(path, number, "not UTF-8 text") from None
        if not name.rpartition(":")[2].isdigit():
            raise format_error(path, number, f"{name[:40]!r} is not a formula id such as Binomial_coefficient:197")
        latex = markup.unwrapped(rest[0]) if rest else ""
        remarks["formulas"] += 1
        remarks["formulas without LaTeX"] += not latex
        yield (path, number), Document(name, body=f"${latex}$" if latex else "", formulas=(Formula(name, latex),))


def check(path: Path) -> None:
    """Raises `FormatError` unless every line is a formula with a unique id."""
    corpus = Corpus("ntcir-12", "", "", path, reader=FORMULAS)
    if not sum(1 for _ in corpus):
        raise format_error(path, 0, "no formulas found")


FORMULAS = CorpusReader("ntcir-12", read, VERSION)


def _is_row(first: First) -> bool:
    return not isinstance(first, Mapping) and len(first) == 2 and first[0].startswith("NTCIR")


READERS = (FileForm(FORMULAS.name, read_topics, documents=FORMULAS, first=_is_row, source="ntcir-12", check=check),)
