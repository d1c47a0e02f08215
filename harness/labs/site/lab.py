"""All pages of a lab's site, one at a time, so that memory does not grow with the number of pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.collections.corpus import Document
from harness.labs.categories import topic_slices
from harness.labs.site.about import about_page
from harness.labs.site.board import final_page, leaderboard_page
from harness.labs.site.feed import feed
from harness.labs.site.lab_view import LabView
from harness.labs.site.pair import pairs_page
from harness.labs.site.run import former_page, run_page
from harness.labs.site.slices import slice_pages
from harness.labs.site.topic import MOST_TEXT, difficulty, topic_page, topics_page
from harness.reports.topics import own_corpus, readable

MOST_TEXTS = 50_000_000  # characters of documents' texts that are held


def lab_files(field: LabView) -> Iterator[Mapping[str, str]]:
    """Yields the files of a lab's site, page by page: path -> content.

    Pages of topics, pairs and slices, and values per topic in any file, are there only if `field.topics_shown`. Pages
    come after those that they list, so that links of a site that is built in place lead to pages that exist.
    """
    for at in range(len(field.runs)):
        yield run_page(field, at).files()
    for submission in field.former:
        yield former_page(field, submission).files()
    if field.topics_shown:
        yield from _topic_files(field)
    yield about_page(field).files()
    if field.final is not None:
        yield final_page(field, field.final).files()
    yield leaderboard_page(field).files()
    yield {f"{field.base}/feed.xml": feed(field)}


def _topic_files(field: LabView) -> Iterator[Mapping[str, str]]:
    hard = difficulty(field)
    texts = _texts(field)
    for at in range(len(field.topics)):
        yield topic_page(field, at, hard, texts).files()
    yield topics_page(field, hard).files()
    yield pairs_page(field).files()
    for made in slice_pages(field):
        yield made.files()


def count(field: LabView) -> int:
    """Returns the number of items of `lab_files`."""
    slices = topic_slices(field.topics, field.known) if field.topics_shown else {}
    shown = len(field.topics) + 2 + len(slices) + bool(slices) if field.topics_shown else 0
    return len(field.runs) + len(field.former) + 3 + (field.final is not None) + shown


def _texts(field: LabView) -> dict[str, tuple[str, str]]:
    """Returns relevant document -> (title, text), if the corpus is here and small enough to read."""
    threshold = field.board.protocol.relevant_from
    wanted = {
        doc
        for placed in field.placed.values()
        for doc, grade in zip(placed.docs, placed.grades, strict=True)
        if grade >= threshold
    }
    corpus = readable(field.task.corpus) or own_corpus(field.task.collection)
    return {} if corpus is None else _read_texts(corpus, wanted, field.task.keys or {})


def _read_texts(corpus: Iterable[Document], wanted: set[str], keys: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Returns the title and beginning of wanted documents, as many as fit into `MOST_TEXTS` characters."""
    texts: dict[str, tuple[str, str]] = {}
    room = MOST_TEXTS
    for document in corpus:
        name = keys.get(document.id, document.id)
        if name in wanted and name not in texts:
            texts[name] = (document.title[:MOST_TEXT], document.body[: MOST_TEXT + 1])
            room -= sum(map(len, texts[name]))
            if room < 0:
                break
    return texts
