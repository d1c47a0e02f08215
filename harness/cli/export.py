"""The commands `export collection`, `run` and `results`: data in the forms of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.main import DATA, HelpGroup
from harness.cli.options import Edition, Format, of, to_path
from harness.errors import HarnessError, suggestion
from harness.io.console import print_line

export_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=DATA,
    rich_markup_mode=None,
    help="Export collections, runs and results in the forms of other programs.",
)
Folder = Annotated[
    Path | None, typer.Option("--output", "-o", parser=to_path, metavar="FOLDER", help="New folder to write to.")
]


@export_app.command()
def run(
    given: Annotated[
        str,
        typer.Argument(
            metavar="[NAME=]RUN", help="Run file, or a folder or archive of TIRA; NAME= names it, by default its tag."
        ),
    ],
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="Form: tira.")] = "tira",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=to_path, metavar="FOLDER|FILE.zip", help="New folder or archive."),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(parser=to_path, metavar="FILE", help="ir_metadata file; default: the one beside the run."),
    ] = None,
    team: Annotated[str, typer.Option(help="Name of the team.")] = "",
    description: Annotated[str, typer.Option(help="What the run is, in one sentence.")] = "",
    dataset: Annotated[str, typer.Option(help="Name of the data set in TIRA; default: the collection's name.")] = "",
    format: Format = None,
) -> None:
    """Write a run with its metadata to a folder or archive that TIRA and TIREx take."""
    from harness.cli.scoring_options import labelled
    from harness.experiments.tira import export_run

    if form != "tira":
        raise HarnessError(f"--as {form}: no such form; {suggestion(form, ['tira'])}")
    if output is None:
        raise HarnessError("--output FOLDER or FILE.zip: where the run is written")
    (name,), (path,) = labelled([given])
    made = export_run(
        path,
        output,
        metadata=metadata,
        team=team,
        description=description,
        collection=dataset,
        name=name or None,
        format=format,
    )
    print_line(f"{output}: run {made.name}, {len(made):,} results of {len(made.topics):,} topics")


@export_app.command()
def results(
    source: Annotated[
        Path,
        typer.Argument(
            parser=to_path, metavar="REPORT", help="Folder of a report, its report.json, or output of score --json."
        ),
    ],
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="Form of the files: mteb or parquet.")],
    output: Folder = None,
) -> None:
    """Write the scores in a report as results of mteb, or as a data set in Parquet."""
    from harness.experiments.result_files import export_results, scores_in

    if output is None:
        raise HarnessError("--output FOLDER: where the results are written")
    scores = scores_in(source)
    files = export_results(scores, form, output)
    runs = "1 run" if len(scores) == 1 else f"{len(scores):,} runs"
    print_line(f"{output}: {len(files):,} files, scores of {runs}")


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
    from harness.cli.scoring_options import find_readers
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection
    from harness.collections.writers.folder import export

    if output is None:
        raise HarnessError("--output FOLDER: where the collection is written")
    source = load_collection(name)
    searched = corpus or source.corpus
    if not searched:
        raise HarnessError(f"collection {name} names no corpus; name the one of its documents with --corpus NAME")
    find_readers(source, searched)
    written = export(source, load_corpus(searched), form, output, edition=edition, judgments=judgments, rounded=rounded)
    count = "no judgments" if written.judgments is None else f"{written.judgments:,} judgments"
    print_line(f"{output}: {written.documents:,} documents, {written.topics:,} topics, {count}")
