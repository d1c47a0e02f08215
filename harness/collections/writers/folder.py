"""Exports a collection to a folder, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.collections.collection import Collection
from harness.collections.corpus import Corpus
from harness.collections.writers import beir, mteb, trec
from harness.collections.writers.card import card
from harness.collections.writers.contents import Contents, Seen, contents
from harness.errors import HarnessError, os_errors, suggestion
from harness.io import staging_names

FORMS: Mapping[str, Callable[[Contents, Path], Seen]] = {"beir": beir.write, "trec": trec.write, "mteb": mteb.write}


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
