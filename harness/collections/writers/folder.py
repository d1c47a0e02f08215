"""Exports a collection to a folder, whole or not at all.

The data card of an exported collection: origin, licence, contents, and how its scores are meant.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.collections.beir import BeirCollection, BeirCorpus
from harness.collections.collection import Collection
from harness.collections.corpus import Corpus
from harness.collections.writers.contents import Contents, Seen, contents
from harness.collections.writers.formats import FORMS
from harness.errors import HarnessError, os_errors, suggestion
from harness.io import staging_names
from harness.io.files import sha256_file
from harness.sources.checkout import Checkout
from harness.sources.resource import RepositoryFolder, Resource
from harness.version import __version__

_FILES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "beir": (
        ("corpus.jsonl", "documents: `_id`, `title`, `text`; `metadata` has tags, formulas and further columns"),
        ("queries.jsonl", "topics: `_id`, `text`; `metadata` has title, body, tags, formulas, language, attributes"),
        ("qrels/test.tsv", "judgments: `query-id`, `corpus-id`, `score`"),
        ("excluded_ids.jsonl", "documents that are excluded from the ranking of a topic"),
    ),
    "mteb": (
        ("corpus.jsonl", "documents: `_id`, `title`, `text`"),
        ("queries.jsonl", "topics: `_id`, `text`"),
        ("qrels/test.jsonl", "judgments: `query-id`, `corpus-id`, `score`"),
        ("excluded_ids.jsonl", "documents that are excluded from the ranking of a topic; mteb does not exclude them"),
        ("task.py", "class `Task` for mteb, with its data in `task.json`"),
    ),
    "trec": (
        ("documents.trec", "documents: `<DOCNO>`, `<TITLE>`, `<TEXT>`, with `&lt;`, `&gt;` and `&amp;`"),
        ("topics.trec", "topics: `<num>`, `<title>`, `<desc>` (the body on one line)"),
        ("topics.tsv", "topics: id, tab, the whole query on one line"),
        ("qrels.txt", "judgments: topic, 0, document, grade"),
        ("keys.tsv", "document and the key (visual id) by which it is judged and de-duplicated"),
        ("excluded_ids.jsonl", "documents that are excluded from the ranking of a topic"),
    ),
}
# Parts of mteb's data sets, and their files.
_PARTS = (("corpus", "corpus.jsonl"), ("queries", "queries.jsonl"), ("default", "qrels/test.jsonl"))


def card(data: Contents, seen: Seen, form: str, folder: Path) -> str:
    """Returns the content of `README.md`; `form` is `beir`, `trec` or `mteb`, `folder` has the written files."""
    parts = [_front_matter(data, form), f"# {_plain(data.collection.title)}\n"]
    if data.qrels is not None:
        qrels = f"{data.present(seen):,} judgments of {len(data.qrels.topics):,} topics, edition {data.edition}"
    else:
        qrels = "no judgments"
    parts.append(f"{seen.documents:,} documents, {len(data.topics):,} topics, {qrels}.\n")
    files = "".join(f"| `{name}` | {says} |\n" for name, says in _FILES[form] if (folder / name).is_file())
    parts.append(f"| file | content |\n|---|---|\n{files}")
    parts.append("## Licence and sources\n")
    parts.append(
        f"Topics and judgments: {_plain(data.collection.licence)}. Documents: {_plain(data.corpus.licence)}. "
        "Whoever passes these files on must follow these terms, and the terms of use accepted to fetch them.\n"
    )
    sources = [*_of_collection(data.collection, data.edition, data.qrels is not None), *_of_corpus(data.corpus)]
    parts.append("".join(f"- {line}\n" for line in dict.fromkeys(sources)))
    parts.append("## Scores\n")
    parts.append("".join(f"- {_plain(line)}\n" for line in _caution_lines(data, seen, form)))
    parts.append(f"Exported by mathir-harness {__version__}.\n")
    return "\n".join(parts)


def _front_matter(data: Contents, form: str) -> str:
    """Returns the YAML at the beginning, which `datasets` reads."""
    codes = sorted({topic.language for topic in data.topics})
    listed = "".join(f"- {json.dumps(code)}\n" for code in codes)
    parts = _PARTS[: 2 if data.qrels is None else 3] if form == "mteb" else ()
    about = "- config_name: {}\n  data_files:\n  - split: test\n    path: {}\n"
    configs = "configs:\n" * bool(parts) + "".join(about.format(*part) for part in parts)
    return f"---\nlanguage:\n{listed}task_categories:\n- text-retrieval\n{configs}---\n"


def _caution_lines(data: Contents, seen: Seen, form: str) -> Iterator[str]:
    protocol = data.protocol
    yield (
        f"The collection's own protocol is `{protocol.name}` ({', '.join(protocol.measures)}); scores of other "
        "programs follow other rules for depth, ties, unjudged documents and missing topics, and are not comparable."
    )
    if data.qrels is not None and (lacking := len(data.qrels) - data.present(seen)):
        yield (
            f"{lacking:,} of {len(data.qrels):,} judgments are of documents that corpus {data.corpus.name} lacks; "
            "they are left out."
        )
    if data.keyed:
        yield (
            "Formulas are judged by their visual id (key): `qrels.txt` names keys, `keys.tsv` maps documents to them."
            if form == "trec"
            else "Formulas are judged by their visual id: each formula of a judged one has its grade, and rankings "
            "are not de-duplicated as the protocol demands."
        )
    if data.collection.cluster:
        yield f"Topics that share their {data.collection.cluster} depend on each other."
    yield from (*data.collection.notes, *data.corpus.notes)


def _of_collection(collection: Collection, edition: str, judgments: bool) -> Iterator[str]:
    """Yields the sources of what is exported; a checksum of private judgments would confirm guesses."""
    if isinstance(collection, BeirCollection):
        yield collection.data.called if collection.data.name else "a folder in BEIR's form"
        return
    chosen = collection.edition(edition)
    entries = [chosen.file, *(each.file for each in chosen.exclusion_files())] if judgments else []
    entries += [part.file for part in (collection.topic_file, *collection.attribute_files) if part is not None]
    for entry in entries:
        for each in entry if isinstance(entry, tuple) else (entry,):
            yield _named(each)


def _of_corpus(corpus: Corpus) -> Iterator[str]:
    if isinstance(corpus, BeirCorpus):
        yield corpus.data.called if corpus.data.name else "a folder in BEIR's form"
        return
    for source in corpus.sources if isinstance(corpus.sources, tuple) else (corpus.sources,):
        yield f"{source.what}, as checked out" if isinstance(source, Checkout) else _named(source)


def _named(source: Resource | RepositoryFolder | Path) -> str:
    """Returns the name of a file, its address if it has one, and its checksum; no path of this machine."""
    if isinstance(source, Path):
        return f"{_plain(source.name)} (sha256 {sha256_file(source)})" if source.is_file() else _plain(source.name)
    address = source.address if isinstance(source, RepositoryFolder) or source.url or source.repository else ""
    said = [each for each in (address, f"sha256 {source.sha256}" if source.sha256 else "") if each]
    return f"{_plain(source.name)} ({', '.join(said)})" if said else _plain(source.name)


def _plain(text: str) -> str:
    """Returns text on one line."""
    return " ".join(text.split())


class ExportCounts(NamedTuple):
    """Numbers of exported documents, topics and judgments (None without judgments)."""

    documents: int
    topics: int
    judgments: int | None


def export(
    collection: Collection,
    corpus: Corpus,
    form: str,
    folder: Path,
    *,
    edition: str | None = None,
    judgments: bool = True,
    rounded: bool = False,
) -> ExportCounts:
    """Writes a collection to a new folder, with a data card as `README.md`; documents are streamed.

    Parameters
    ----------
    form : one of `FORMS`.
    edition, judgments, rounded : see `harness.collections.writers.contents.contents`.

    Raises
    ------
    HarnessError
        The form is unknown, the folder exists and is not empty or cannot be written, something private would be
        exported, the corpus holds none of the judged documents, or the data have faults.

    Examples
    --------
    >>> from harness import load_collection, load_corpus
    >>> export(load_collection("mini-task1"), load_corpus("mini-answers"), "beir", Path("reports/mini-beir"))
    ExportCounts(documents=253, topics=42, judgments=320)
    """
    if form not in FORMS:
        raise HarnessError(f"--as {form}: no such form; {suggestion(form, FORMS)}")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise HarnessError(f"{folder}: exists already, and is left as it is; name another folder")
    data = contents(collection, corpus, edition, judgments=judgments, rounded=rounded)
    with os_errors(folder, "written"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staging_names.folder(folder.name, folder.parent) as made:
            seen = FORMS[form](data, made)
            if data.qrels is not None and not seen.judged:
                raise HarnessError(
                    f"corpus {corpus.name}: holds none of the documents judged by {collection.name}; name the corpus "
                    "of the judgments with --corpus"
                )
            (made / "README.md").write_text(card(data, seen, form, made), encoding="utf-8")
            staging_names.share(made)
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
    return ExportCounts(seen.documents, len(data.topics), None if data.qrels is None else data.present(seen))
