"""The commands `export collection`, `run` and `results`: data in the forms of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.added import Group
from harness.cli.complete import of
from harness.cli.options import Edition, to_path
from harness.errors import HarnessError
from harness.io.console import out

export_app = typer.Typer(
    cls=Group, rich_markup_mode=None, help="Export collections, runs and results in the forms of other programs."
)
Folder = Annotated[
    Path | None, typer.Option("--output", "-o", parser=to_path, metavar="FOLDER", help="New folder to write to.")
]


@export_app.command()
def collection(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=of("collection"), help="Collection.")],
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="Form of the files: beir, trec or mteb.")],
    output: Folder = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus", autocompletion=of("corpus"), help="Corpus of the documents; default: the collection's."
        ),
    ] = None,
    edition: Edition = None,
    judgments: Annotated[
        bool, typer.Option("--judgments/--no-judgments", help="Export the judgments; private ones never are.")
    ] = True,
    rounded: Annotated[bool, typer.Option("--round", help="Round real grades to whole ones, halves up.")] = False,
) -> None:
    """Write topics, documents and judgments to a folder that ir_datasets, PyTerrier or mteb reads."""
    from harness.cli.score import find_readers
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection
    from harness.collections.writers.folder import export

    if output is None:
        raise HarnessError("--output FOLDER: where the collection is written")
    found = load_collection(name)
    searched = corpus or found.corpus
    if not searched:
        raise HarnessError(f"collection {name} names no corpus; name the one of its documents with --corpus NAME")
    find_readers(found, searched)
    written = export(found, load_corpus(searched), form, output, edition=edition, judgments=judgments, rounded=rounded)
    count = "no judgments" if written.judgments is None else f"{written.judgments:,} judgments"
    out(f"{output}: {written.documents:,} documents, {written.topics:,} topics, {count}")
