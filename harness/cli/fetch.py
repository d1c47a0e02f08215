"""The command `fetch`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import DATA, in_panel
from harness.cli.options import anything
from harness.errors import HarnessError, counted_text, suggestion
from harness.io.console import log_line, out_left, print_line

if TYPE_CHECKING:
    from harness.collections.beir import DataSet
    from harness.sources.resource import RepositoryFolder, Resource


@in_panel(DATA)
def fetch(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...|URL",
            autocompletion=anything,
            help="Collections, corpora, papers, sources or models; 'models': all sentence encoders that are sources. "
            "Or the address of a lab's server, whose topics, documents and rules go to the current folder.",
        ),
    ],
    probe: Annotated[bool, typer.Option("--probe", help="Only check whether the files are available.")] = False,
    brought: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Import a manually downloaded file after checking it.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the terms of use that the command prints.")] = False,
) -> None:
    """Fetch the files of collections, corpora, papers and sources, checked against their checksums."""
    from harness.collections.files import check_arrived
    from harness.io import config
    from harness.labs.names import is_address
    from harness.sources import catalogue, fetch, hub
    from harness.sources.resource import Resource

    if any(is_address(name) for name in names):
        if len(names) > 1 or probe or brought is not None or accept:
            raise HarnessError("fetch: the address of a lab's server is given alone, without options")
        _fetch_lab(names[0])
        return
    if brought is not None:
        print_line(str(_accept(names, brought)))
        return
    wanted = [each for name in names for each in _models(name) or [name]]
    files = [file for name in wanted for file in _files(name)]
    if probe:
        _probe(wanted, [file for file in files if fetch.resource_state(file) == "fetchable"])
        for file in files:
            if isinstance(file, Resource) and file.hub and fetch.resource_state(file) != "here":
                hub.listed(*file.hub.split("@"))  # raises if the hub does not say that it is there
        for data in _data_sets(wanted):
            data.reachable()
        print_line(f"{', '.join(names)}: here or reachable")
        return
    for name in wanted:
        if name in config.names("source") and not fetch.accepted(name):
            _agree(name, accept)
    paths = fetch.fetch_resources(files, progress=log_line)
    check_arrived(files)
    if models := [name for name in wanted if name in _models(name)]:
        out_left([["model", "size", "licence", "folder"], *(_model(name) for name in models)])
    elif all(name in config.names("source") for name in names):
        parts = {name: catalogue.source_files(name) for name in names if catalogue.joined(name)}
        inside = {part.cached for files in parts.values() for part in files}
        for path in sorted({*(set(paths) - inside), *(fetch.whole(name, log_line) for name in parts)}):
            print_line(str(path))
    got = {path for data in _data_sets(wanted) for part in astuple(data.fetched()) for path in part}
    print_line(f"{len({*paths, *got})} files, checksums right")


def _fetch_lab(server: str) -> None:
    """Downloads the files that the lab of a server offers."""
    from harness.labs.remote import fetch_downloads

    offers, paths = fetch_downloads(server, Path())
    for path in paths:
        print_line(str(path))
    print_line(f"{counted_text(len(paths), 'file')}, checksums right")
    if offers.ours:
        names = f"{offers.collection} {offers.corpus}".rstrip()
        print_line(f"the lab's data are part of the harness; their public files: harness fetch {names}")


def _data_sets(names: Sequence[str]) -> list[DataSet]:
    """Returns the data sets in BEIR's format that collections and corpora of these names read."""
    from harness.collections.beir import BeirCollection, BeirCorpus
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection
    from harness.io import config

    collections = [load_collection(name) for name in names if name in config.names("collection")]
    searched = [load_corpus(name) for name in names if name in config.names("corpus")]
    return [each.data for each in (*collections, *searched) if isinstance(each, BeirCollection | BeirCorpus)]


def _agree(name: str, accept: bool) -> None:
    """Shows the terms of use of a source, asks for acceptance and records it."""
    from harness.io import config
    from harness.sources import catalogue, fetch

    said = f"{name} has terms of use: {config.load('source', name)[0]['licence']}, {catalogue.terms(name)}"
    log_line(said)
    if not accept and not (sys.stdin.isatty() and typer.confirm("Do you accept them?", err=True)):
        raise HarnessError(f"fetch {name!r}: its terms of use are not accepted; to accept them: --accept")
    fetch.accept(name)


def _models(name: str) -> list[str]:
    """Returns the models of a name: `models` for all model sources, one source, or a model of the hub."""
    from harness.sources import catalogue

    known = catalogue.model_names()
    return known if name == "models" else [name] if name in known or "/" in name else []


def _model(name: str) -> list[str]:
    """Returns a line on a model: size, dimension and pooling, read from its files."""
    from harness.io import config
    from harness.systems.dense import models

    folder = models.find_model(name).folder
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    licence = config.load("source", name)[0]["licence"] if name in config.names("source") else "see its card"
    return [name, f"{size / 1e6:.0f} MB", str(licence), str(folder)]


def _probe(names: Sequence[str], fetchable: Sequence[Resource | RepositoryFolder]) -> None:
    from harness.sources import network, packages
    from harness.sources.resource import Resource
    from harness.systems.dense import models

    asked = {file.package if isinstance(file, Resource) else "" for file in fetchable}
    answers = all(packages.reachable(package) if package else network.reachable() for package in asked)
    if not answers or not all(models.reachable(name) for name in names if "/" in name and models.missing(name)):
        raise HarnessError(f"{', '.join(names)}: not here, and the network does not answer")


def _files(name: str) -> list[Resource | RepositoryFolder]:
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection
    from harness.io import config
    from harness.papers.paper import load_paper, paper_names
    from harness.sources import catalogue

    if name in config.names("collection"):
        return [*load_collection(name).files()]
    if name in config.names("corpus"):
        return load_corpus(name).files()
    if name in paper_names():
        return [*load_paper(name).files()]
    if name in config.names("source"):
        return [*catalogue.source_files(name)]
    if "/" in name:  # a model: see `_model`
        return []
    groups = ("collection", "corpus", "paper", "source")
    begun = [group for group in groups if sum(known.startswith(f"{name}-") for known in config.names(group)) > 1]
    known = [each for group in begun[:1] or groups for each in config.names(group)]
    raise HarnessError(
        f"fetch {name!r}: neither a collection nor a corpus nor a paper nor a source; {suggestion(name, known)}"
    )


def _accept(names: Sequence[str], path: Path) -> Path:
    """Take a manually downloaded file of a source, or for a collection or corpus that needs just one such source."""
    from harness.collections.files import accept, by_hand
    from harness.io import config
    from harness.sources import catalogue

    if len(names) != 1:
        raise HarnessError(f"fetch {' '.join(names)}: --from brings one file for one name")
    name = names[0]
    if name in config.names("source"):
        return accept(path, name)
    needed = sorted({source for source in by_hand() if set(catalogue.source_files(source)) & set(_files(name))})
    if len(needed) != 1:
        which = f"several, name one of them: {', '.join(needed)}" if needed else f"none (known: {', '.join(by_hand())})"
        raise HarnessError(f"fetch {name!r}: --from takes a file of a source with manual download, and it has {which}")
    return accept(path, needed[0])
