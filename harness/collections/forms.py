"""Forms of files by the name of their `reader` in configurations: what reads topics, judgments and documents.

A module of readers declares its forms as `READERS`. All modules in `harness.collections.readers` are searched, and of
each paper the module `readers`; those of other packages are named by module and function
(`harness.collections.foreign`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.data import topic_files
from harness.data.topics import Topics
from harness.data.trec import Qrels, parse_qrels
from harness.formulas.text.delimiters import Dollars
from harness.io.modules import inside

if TYPE_CHECKING:
    from harness.collections.corpus import CorpusReader

First = Mapping[str, object] | Sequence[str]  # of a file of topics: the first item of a JSON list, or the first columns
What = Literal["topics", "judgments", "documents", "places"]


@dataclass(frozen=True)
class FileForm:
    """A form of files, with the readers of what such files can hold.

    Attributes
    ----------
    topics, judgments : read the content of a file, its path in messages, and the language or the name of the edition.
    documents : reader of a corpus.
    places : reads a file's content and path to id -> position.
    folder : whether it reads a folder, or all files of a source, in place of a file; the content is then empty.
    dollars : which dollar signs of topics enclose formulas.
    first : whether a file of topics without a named reader has this form, by how it begins.
    source, check : source of a file that its users download, and what raises HarnessError for a wrong one.
    """

    name: str
    topics: Callable[[bytes, str, str], Topics] | None = None
    judgments: Callable[[bytes, str, str], Qrels] | None = None
    documents: CorpusReader | None = None
    places: Callable[[bytes, str], dict[str, float]] | None = None
    folder: bool = False
    dollars: Dollars | None = None
    first: Callable[[First], bool] | None = None
    source: str = ""
    check: Callable[[Path], None] | None = None


def _read_trec(data: bytes, path: str, edition: str) -> Qrels:
    return parse_qrels(data, path, edition=edition)


_PANDOC = ("trec", "tsv")  # topics of any subject, whose texts may hold amounts of money
_PLAIN = {
    name: FileForm(name, read, _read_trec if name == "trec" else None, dollars="pandoc" if name in _PANDOC else None)
    for name, read in topic_files.READERS.items()
}


@cache
def forms() -> tuple[FileForm, ...]:
    """Returns the forms of all modules of readers; a name may stand for several, such as one of topics and a corpus."""
    modules = [*inside("harness.collections.readers"), *inside("harness.papers", "readers")]
    return (*_PLAIN.values(), *(form for name in modules for form in getattr(import_module(name), "READERS", ())))


def readers(what: What) -> dict[str, Any]:
    """Returns name -> reader of topics, judgments, documents or places."""
    return {form.name: reader for form in forms() if (reader := getattr(form, what)) is not None}


def reader(name: str, what: What) -> Any:  # noqa: ANN401  (a function for each kind)
    """Returns the reader of a name; modules are imported for other names than those of plain files."""
    plain = _PLAIN.get(name)
    return (plain is not None and getattr(plain, what)) or readers(what)[name]


def known(name: str, what: What) -> bool:
    """Returns whether a reader has this name; modules are imported for other names than those of plain files."""
    plain = _PLAIN.get(name)
    return (plain is not None and getattr(plain, what) is not None) or name in readers(what)


def of_folder(name: str) -> bool:
    """Returns whether the readers of a name take a folder, or all files of a source, in place of a file."""
    return name not in _PLAIN and any(form.folder for form in forms() if form.name == name)


def dollars_of(name: str) -> Dollars | None:
    """Returns which dollar signs enclose formulas in topics of a form; None for its own rule."""
    return _PLAIN[name].dollars if name in _PLAIN else None


def recognised(first: First) -> str:
    """Returns the name of the form of topics whose files begin so; empty if there is none."""
    return next((form.name for form in forms() if form.first is not None and form.first(first)), "")


def checks() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yields the sources of files that users download, with what raises HarnessError for a wrong file."""
    return ((form.source, form.check) for form in forms() if form.check is not None)
