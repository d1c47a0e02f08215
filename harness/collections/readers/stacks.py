r"""Corpora and collections from the Stacks project: its statements, their proofs, and the premises of each proof.

No manual judgments are needed: the proof follows its statement, and cites its premises with `\ref`.

- `stacks-proofs`: the topic is a statement; its own proofs are relevant, among all proofs.
- `stacks-premises`: the topic is a statement; the earlier statements that its proofs cite are relevant.

References are removed from texts (`harness.collections.readers.stacks_book.latex_to_text`), so that a proof does not
name its statement and a statement does not name its premises. The id of a proof is that of its statement with `.1`,
`.2`, ...; systems must therefore not use ids, which would solve `stacks-proofs` trivially.

Splits consist of whole chapters: every fifth one, starting with the third, is for testing, the others for training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks
from harness.collections.forms import FileForm
from harness.collections.readers.stacks_book import Book, Statement, read_book
from harness.data.markup import numbered_formulas
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, suggestion

FIFTH, THIRD = 5, 2  # every fifth chapter is a test chapter, starting at index 2
SPLITS = ("all", "train", "test", "learn")


def split_of(book: Book) -> dict[str, str]:
    """Returns chapter -> `train` or `test`."""
    return {name: "test" if at % FIFTH == THIRD else "train" for at, name in enumerate(book.chapters)}


def statements(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the statements in book order; their tags are the ids, and the corpus chooses among `COLUMNS`."""
    corpus.check_kept(list(COLUMNS))
    where = corpus.path.parent  # the folder of the first file, the Makefile
    book = read_book(where)
    remarks.update(book.remarks)
    for one in book.statements:
        columns = {name: COLUMNS[name](book, one) for name in corpus.keep}
        title, body = _title_and_text(book, one)
        formulas = numbered_formulas(f"{one.tag}.", title, body)
        remarks["statements"] += 1
        remarks["statements with a proof"] += bool(one.proofs)
        remarks["formulas"] += len(formulas)
        yield (where / f"{one.chapter}.tex", one.line), Document(one.tag, title, body, (), formulas, columns)


def _aside_column(name: str) -> Callable[[Book, Statement], str]:
    return lambda book, one: book.plain(one.asides.get(name, ""))


COLUMNS: Mapping[str, Callable[[Book, Statement], str]] = {
    "kind": lambda _, one: one.kind,
    "chapter": lambda book, one: book.plain(book.chapters[one.chapter]),
    "section": lambda book, one: book.plain(one.section),
    "label": lambda _, one: one.label,
    "slogan": _aside_column("slogan"),
    "history": _aside_column("history"),
    "cites": lambda book, one: " ".join(book.cited(one.chapter, one.text)),  # in the statement itself
    "proof": lambda book, one: " ".join(book.plain(proof.source) for proof in one.proofs),
}


# Columns for a corpus of training pairs: the proved statement as a question, and the chapter.
OF_PROOFS: Mapping[str, Callable[[Book, Statement], str]] = {
    "question": lambda book, one: " ".join(_title_and_text(book, one)).strip(),
    "question_id": lambda _, one: one.tag,
    "chapter": lambda _, one: one.chapter,
}


def proofs(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the proofs without their statements and chapters, except for columns of `OF_PROOFS` that are kept."""
    corpus.check_kept(list(OF_PROOFS))
    where = corpus.path.parent
    book = read_book(where)
    for one in book.statements:
        for name, passage in zip(proof_ids(one), one.proofs, strict=True):
            body = book.plain(passage.source)
            formulas = numbered_formulas(f"{name}.", body)
            remarks["proofs"] += 1
            remarks["formulas"] += len(formulas)
            columns = {column: OF_PROOFS[column](book, one) for column in corpus.keep}
            yield (where / f"{one.chapter}.tex", one.line), Document(name, "", body, (), formulas, columns)


def proof_ids(one: Statement) -> tuple[str, ...]:
    """Returns the ids of a statement's proofs."""
    return tuple(f"{one.tag}.{number}" for number, _ in enumerate(one.proofs, 1))


def proofs_topics(_: bytes, path: str, language: str = "eng") -> Topics:
    """Returns the statements with a proof as topics; attributes `chapter`, `kind` and `split`."""
    book = read_book(Path(path))
    return _as_topics(book, [one for one in book.statements if one.proofs], language)


def premises_topics(_: bytes, path: str, language: str = "eng") -> Topics:
    """Returns the statements whose proofs cite earlier ones as topics; attributes as in `proofs_topics`."""
    book = read_book(Path(path))
    premises = _premises(book)
    return _as_topics(book, [one for one in book.statements if one.tag in premises], language)


def proofs_qrels(_: bytes, path: str, edition: str) -> Qrels:
    """Returns judgments with grade 1 for each proof of a statement in the edition's chapters."""
    book = read_book(Path(path))
    chapters = _chapters_of(book, edition)
    of = {one.tag: dict.fromkeys(proof_ids(one), 1.0) for one in book.statements if one.chapter in chapters}
    return Qrels.from_dict(edition, {tag: docs for tag, docs in of.items() if docs})


def premises_qrels(_: bytes, path: str, edition: str) -> Qrels:
    """Returns judgments with grade 1 for the earlier statements that the proofs of a topic cite.

    Topics are those in the edition's chapters.

    The edition `learn` is `train` without cited statements in test chapters.
    """
    book = read_book(Path(path))
    chapters, premises = _chapters_of(book, edition), _premises(book)
    of = {one.tag: one.chapter for one in book.statements}
    kept = {
        tag: {doc: 1.0 for doc in docs if edition != "learn" or of[doc] in chapters}
        for tag, docs in premises.items()
        if of[tag] in chapters
    }
    return Qrels.from_dict(edition, {tag: docs for tag, docs in kept.items() if docs})


def _premises(book: Book) -> dict[str, tuple[str, ...]]:
    """Returns statement -> the earlier statements that its proofs cite, for statements with such citations."""
    place = {one.tag: number for number, one in enumerate(book.statements)}
    out = {}
    for one in book.statements:
        cited = dict.fromkeys(tag for passage in one.proofs for tag in book.cited(one.chapter, passage))
        if earlier := tuple(tag for tag in cited if place[tag] < place[one.tag]):
            out[one.tag] = earlier
    return out


def _chapters_of(book: Book, edition: str) -> frozenset[str]:
    if edition not in SPLITS:
        raise HarnessError(f"the Stacks project: edition {edition!r} is unknown; {suggestion(edition, SPLITS)}")
    wanted = "train" if edition == "learn" else edition
    return frozenset(name for name, split in split_of(book).items() if wanted in ("all", split))


def _as_topics(book: Book, chosen: list[Statement], language: str) -> Topics:
    split = split_of(book)
    topics = []
    for one in chosen:
        title, body = _title_and_text(book, one)
        attributes = {"chapter": one.chapter, "kind": one.kind, "split": split[one.chapter]}
        topics.append(
            Topic(one.tag, title, body, (), numbered_formulas(f"{one.tag}.", title, body), language, attributes)
        )
    return Topics(tuple(topics))


def _title_and_text(book: Book, one: Statement) -> tuple[str, str]:
    return book.plain(one.title), book.plain(one.text.source)


STATEMENTS = CorpusReader("stacks", statements)
PROOFS = CorpusReader("stacks-proofs", proofs)


def _book_order(_: bytes, path: str) -> dict[str, float]:
    """Returns the place of each statement in book order."""
    return {one.tag: float(place) for place, one in enumerate(read_book(Path(path)).statements)}


READERS = (
    FileForm(STATEMENTS.name, documents=STATEMENTS, folder=True),
    FileForm(PROOFS.name, proofs_topics, proofs_qrels, PROOFS, folder=True),
    FileForm("stacks-premises", premises_topics, premises_qrels, folder=True),
    FileForm("stacks-order", places=_book_order, folder=True),
)
