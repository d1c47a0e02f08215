"""The command `fetch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import HarnessError, suggestion
from harness.io.console import out, say

if TYPE_CHECKING:
    from harness.sources.resource import Folder, Resource


def fetch(
    names: Annotated[list[str], typer.Argument(help="Collections, corpora, papers or sources; see 'harness list'.")],
    probe: Annotated[bool, typer.Option("--probe", help="Only say whether the files can be had.")] = False,
    brought: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A manually downloaded file: checked, then kept."),
    ] = None,
) -> None:
    """Fetch the files of collections, corpora, papers and sources, checked against their checksums."""
    from harness.io import config
    from harness.sources import fetch, network

    if brought is not None:
        out(str(_accept(names, brought)))
        return
    files = [file for name in names for file in _files(name)]
    if probe:
        if any(fetch.state(file) == "fetchable" for file in files) and not network.reachable():
            raise HarnessError(f"{', '.join(names)}: not here, and the network does not answer")
        out(f"{', '.join(names)}: here or reachable")
        return
    paths = fetch.fetch(files, progress=say)
    for path in sorted(set(paths)) if all(name in config.names("source") for name in names) else ():
        out(str(path))
    out(f"{len(set(paths))} files, checksums right")


def _files(name: str) -> list[Resource | Folder]:
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
    known = [name for group in ("collection", "corpus", "paper", "source") for name in config.names(group)]
    raise HarnessError(
        f"fetch {name!r}: neither a collection nor a corpus nor a paper nor a source; {suggestion(name, known)}"
    )


def _accept(names: Sequence[str], path: Path) -> Path:
    """Take a manually downloaded file of a source, or for a collection or corpus that needs just one such source."""
    from harness.collections.accept import accept, by_hand
    from harness.io import config
    from harness.sources import catalogue

    if len(names) != 1:
        raise HarnessError(f"fetch {' '.join(names)}: --from brings one file for one name")
    name = names[0]
    if name in config.names("source"):
        return accept(path, name)
    needed = sorted({source for source in by_hand() if set(catalogue.source_files(source)) & set(_files(name))})
    if len(needed) != 1:
        found = f"several, name one of them: {', '.join(needed)}" if needed else f"none (known: {', '.join(by_hand())})"
        raise HarnessError(f"fetch {name!r}: --from takes a file of a source with manual download, and it has {found}")
    return accept(path, needed[0])
