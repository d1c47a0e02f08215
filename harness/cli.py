"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import __version__, interrupt
from harness.console import leave_pipe, out, say
from harness.errors import HarnessError, SystemRaisedError, suggestion

if TYPE_CHECKING:
    from harness.fetch import Resource
    from harness.folders import Folder
    from harness.protocol import Scores
    from harness.report import Report
    from harness.report.comparison import Evaluation

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
HYDRA_COMMANDS = ("reproduce", "run")


def _path(text: str) -> Path:
    if not text:
        raise typer.BadParameter("'' names no file or folder")
    return Path(text)


Runs = Annotated[
    list[Path], typer.Argument(parser=_path, metavar="RUN...", help="Run files (TREC or ARQMath; plain, gzip or xz).")
]
CollectionName = Annotated[str, typer.Option("--collection", "-c", help="Collection; see 'harness list'.")]
Edition = Annotated[str | None, typer.Option(help="Edition of the judgments; default: the collection's.")]
ProtocolName = Annotated[str | None, typer.Option("--protocol", help="Protocol; default: the collection's.")]
Format = Annotated[str | None, typer.Option(help="Layout of the run files: trec, arqmath-task1, arqmath-task2.")]
Measures = Annotated[str | None, typer.Option(help="Measures instead of the protocol's, such as nDCG@10,AP.")]
Keys = Annotated[
    str | None,
    typer.Option(
        help="Tab-separated file 'id key' with a header (formula to visual id); 'none': ids are keys already."
    ),
]
CorpusName = Annotated[
    str | None, typer.Option("--corpus", help="Cut the judgments to the documents of this corpus; see 'harness list'.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", parser=_path, metavar="FOLDER", help="Folder for a report; none is written without it."
    ),
]


def _evaluate(
    paths: Sequence[Path],
    collection_name: str,
    edition: str | None,
    protocol: str | None,
    format: str | None,
    measures: str | None,
    keys: str | None,
    corpus: str | None,
) -> tuple[Evaluation, dict[str, str]]:
    """Runs read, checked and scored; and the checksum of each file."""
    from harness import config
    from harness.collections import load_collection, read_keys
    from harness.collections.corpus import load_corpus
    from harness.metadata import beside, made_on
    from harness.produce import present
    from harness.workflow import evaluate, read_runs

    collection = load_collection(collection_name)
    wanted = None if measures is None else _measures(measures)
    mapping = None if keys in (None, "none") else read_keys(Path(keys), *_key_columns(Path(keys)))
    if corpus is None:
        for path in paths:
            name = made_on(beside(path))
            if name in config.names("corpus") and load_corpus(name).files():
                say(f"{path}: was made on corpus {name}; --corpus {name} cuts the judgments to what that holds")
    held = None if corpus is None else load_corpus(corpus)
    keyed = keys == "none" or (held is not None and held.ids_are_keys)
    if keys is None and held is not None:
        mapping = held.keys()
    scorer = collection.scorer(edition, protocol, measures=wanted, keys=mapping, ids_are_keys=keyed)
    if keys is not None and not scorer.protocol.deduplicate:
        raise HarnessError(f"--keys {keys}: protocol {scorer.protocol.name} does not de-duplicate, so keys have no use")
    coverage = None
    if held is not None:
        own = None
        if scorer.protocol.deduplicate and not keyed:
            own = collection.keys() if mapping is None else mapping
        cut, coverage = present(scorer.qrels, held, own)
        scorer = scorer if coverage.complete else scorer.on_part(cut)
    runs = read_runs(paths, format=format, known_topics=collection.topics().ids())
    notes = held.notes if held is not None else ()
    evaluation = replace(evaluate(collection, scorer, runs), coverage=coverage, corpus_notes=notes)
    if said := evaluation.coverage_sentence():
        out(said)
    for warning in evaluation.warnings:
        say(f"warning: {warning}")
    for scores in evaluation.scores:
        if unknown := scores.counts.get("documents without a key"):
            say(f"warning: {scores.run}: {unknown} results have no key and count as not judged")
    files = {f"{collection.name}, edition {scorer.qrels.edition}": scorer.qrels.sha256}
    return evaluation, files | {str(path): run.sha256 for path, run in zip(paths, runs, strict=True)}


def _measures(text: str) -> tuple[str, ...]:
    from harness.measures import parse_measure

    wanted = tuple(part.strip() for part in text.split(",") if part.strip())
    if not wanted:
        raise HarnessError(f"--measures {text!r}: names no measure; expected a list such as nDCG@10,AP")
    for measure in wanted:
        parse_measure(measure)
        if wanted.count(measure) > 1:
            raise HarnessError(f"--measures {text!r}: measure {measure!r} is named twice")
    return wanted


def _key_columns(path: Path) -> tuple[str, str]:
    from harness.files import read_bytes

    header = read_bytes(path).partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r").split("\t")
    if len(header) != 2:
        raise HarnessError(f"{path}:1: expected a header of two tab-separated columns, such as 'id' and 'visual_id'")
    return header[0], header[1]


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            field.ljust(width) if i == 0 else field.rjust(width)
            for i, (field, width) in enumerate(zip(row, widths, strict=True))
        )
        out("  ".join((first, *rest)).rstrip())


def _print_means(scores: Sequence[Scores]) -> None:
    first = scores[0]
    rows = [["run", *(first.protocol.label(m) for m in first.measures), "n", "missing"]]
    for score in sorted(scores, key=lambda s: (-s.mean(first.measures[0]), s.run)):
        means = [f"{score.mean(m):.4f}" for m in score.measures]
        counted = [str(score.n(m)) for m in score.measures]
        # One n if all measures stand on the same topics, else one for each.
        n = counted[0] if len(set(counted)) == 1 else "/".join(counted)
        rows.append([score.run, *means, n, str(score.counts["topics missing"])])
    _print_table(rows)
    judgments = f"edition {first.edition} (judgments {first.qrels_sha256[:12]})"
    out(f"{first.collection}, {judgments}, protocol {first.protocol.name}")


def _write(report: Report, folder: Path) -> None:
    from harness.report import write_report

    written = write_report(report, folder)
    out(f"report: {written['html']}")


@app.command()
def score(
    runs: Runs,
    collection: CollectionName,
    edition: Edition = None,
    protocol: ProtocolName = None,
    format: Format = None,
    measures: Measures = None,
    keys: Keys = None,
    corpus: CorpusName = None,
    output: Output = None,
    topics: Annotated[bool, typer.Option("--topics", help="Print every topic instead of means.")] = False,
) -> None:
    """Score run files that anyone made."""
    evaluation, files = _evaluate(runs, collection, edition, protocol, format, measures, keys, corpus)
    if topics:
        out("\t".join(("run", "topic", *evaluation.scores[0].measures)))
        for scores in evaluation.scores:
            for topic, row in zip(scores.topics, scores.values.tolist(), strict=True):
                out("\t".join((scores.run, topic, *(repr(value) for value in row))))
    else:
        _print_means(evaluation.scores)
    label = evaluation.scores[0].protocol.label
    for run, found in evaluation.bounds.items():
        spans = ", ".join(f"{label(m)} {low:.4f} to {high:.4f}" for m, (low, high) in found.items())
        say(f"ties: {run}: {spans}, depending on the order of tied results")
    if output is not None:
        from harness.report.comparison import comparison_report
        from harness.store import provenance

        _write(comparison_report(evaluation, None, provenance(files)), output)


@app.command()
def compare(
    runs: Runs,
    collection: CollectionName,
    baseline: Annotated[
        str | None, typer.Option("--baseline", "-b", help="Run to compare with; default: all pairs.")
    ] = None,
    edition: Edition = None,
    protocol: ProtocolName = None,
    format: Format = None,
    measures: Measures = None,
    keys: Keys = None,
    corpus: CorpusName = None,
    output: Output = None,
    alpha: Annotated[float, typer.Option(help="Level of significance.")] = 0.05,
    family: Annotated[
        int | None, typer.Option(help="Number of tests to correct for; default: those made here.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the randomization test.")] = 0,
) -> None:
    """Significance tables: paired t-tests, Bonferroni and Holm, randomization tests."""
    from harness import stats

    evaluation, files = _evaluate(runs, collection, edition, protocol, format, measures, keys, corpus)
    if len(evaluation.scores) < 2:
        raise HarnessError("compare: needs two runs or more")
    label = evaluation.scores[0].protocol.label
    tested = [m for m in evaluation.scores[0].measures if not m.startswith("Judged")]
    clusters = evaluation.collection.clusters()
    compared = evaluation.scores if clusters is None else [scores.by_cluster(clusters) for scores in evaluation.scores]
    comparison = stats.compare(compared, baseline, measures=tested, alpha=alpha, family=family, seed=seed)
    if clusters is not None:
        name = evaluation.collection.config["cluster"]
        said = f"{comparison.correction}; topics that share their {name} are averaged first, n counts such groups"
        comparison = replace(comparison, correction=said)
    _print_means(evaluation.scores)
    out("")
    rows = [["a", "b", "measure", "n", "a - b", "95% interval", "d", "p", "Bonferroni", "Holm", "random."]]
    for row in comparison.rows:
        effect = "n/a" if row.effect_size is None else f"{row.effect_size:.2f}"
        ps = [_p(row.p), _p(row.p_bonferroni), _p(row.p_holm), _p(row.p_randomization)]
        mark = "*" if row.significant_bonferroni else ""
        interval = f"[{row.ci_low:+.4f}, {row.ci_high:+.4f}]"
        rows.append(
            [row.a, row.b, label(row.measure), str(row.n), f"{row.difference:+.4f}{mark}", interval, effect, *ps]
        )
    _print_table(rows)
    out(f"* {comparison.correction}")
    if output is not None:
        from harness.report.comparison import comparison_report
        from harness.store import provenance

        _write(comparison_report(evaluation, comparison, provenance(files)), output)


def _p(value: float | None) -> str:
    return "undefined" if value is None else "<.0001" if value < 0.0001 else f"{value:.4f}"


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Collections, corpora, papers or sources; see 'harness list'.")],
    probe: Annotated[bool, typer.Option("--probe", help="Only say whether the files can be had.")] = False,
    brought: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A file got by hand: checked, then kept."),
    ] = None,
) -> None:
    """Fetch the files of collections, corpora, papers and sources, checked against their checksums."""
    from harness import config, fetch

    if brought is not None:
        out(str(_accept(names, brought)))
        return
    files = [file for name in names for file in _files(name)]
    if probe:
        if any(fetch.state(file) == "fetchable" for file in files) and not fetch.reachable():
            raise HarnessError(f"{', '.join(names)}: not here, and the network does not answer")
        out("here or reachable")
        return
    paths = fetch.fetch(files, progress=say)
    for path in sorted(set(paths)) if all(name in config.names("source") for name in names) else ():
        out(str(path))
    out(f"{len(set(paths))} files, checksums right")


def _files(name: str) -> list[Resource | Folder]:
    from harness import config
    from harness.collections import load_collection
    from harness.collections.corpus import load_corpus
    from harness.papers import load_paper, paper_names

    if name in config.names("collection"):
        return [*load_collection(name).files()]
    if name in config.names("corpus"):
        return load_corpus(name).files()
    if name in paper_names():
        return [*load_paper(name).files()]
    if name in config.names("source"):
        return [*config.source_files(name)]
    known = [name for group in ("collection", "corpus", "paper", "source") for name in config.names(group)]
    raise HarnessError(
        f"fetch {name!r}: neither a collection nor a corpus nor a paper nor a source; {suggestion(name, known)}"
    )


def _accept(names: Sequence[str], path: Path) -> Path:
    """Take a file that was got by hand for a source, or for a collection or corpus that needs just one such source."""
    from harness import config
    from harness.collections.accept import accept, by_hand

    if len(names) != 1:
        raise HarnessError(f"fetch {' '.join(names)}: --from brings one file for one name")
    name = names[0]
    if name in config.names("source"):
        return accept(path, name)
    needed = sorted({source for source in by_hand() if set(config.source_files(source)) & set(_files(name))})
    if len(needed) != 1:
        found = f"several, name one of them: {', '.join(needed)}" if needed else f"none (known: {', '.join(by_hand())})"
        raise HarnessError(f"fetch {name!r}: --from brings a file of a source that is got by hand, and it has {found}")
    return accept(path, needed[0])


@app.command(name="list")
def list_() -> None:
    """What exists: collections, corpora, papers, systems, with licence and state."""
    from harness import config
    from harness.collections import load_collection
    from harness.collections.corpus import load_corpus
    from harness.papers import load_paper, paper_names
    from harness.systems import system_state

    collections = [(name, load_collection(name)) for name in config.names("collection")]
    corpora = [(name, load_corpus(name)) for name in config.names("corpus")]
    papers = [(name, load_paper(name)) for name in paper_names()]
    systems = [(name, config.load("system", name)[0]) for name in config.names("system")]
    sources = [(name, config.load("source", name)[0]) for name in config.names("source")]
    # Everything is read before anything is printed: half a list looks like a whole one.
    tables = {
        "collections": [
            ["  name", "state", "licence", "editions"],
            *([f"  {name}", c.state(), c.licence, "/".join(c.editions)] for name, c in collections),
        ],
        "corpora": [
            ["  name", "state", "licence", "title"],
            *([f"  {name}", c.state(), c.licence, c.title] for name, c in corpora),
        ],
        "papers": [
            ["  name", "state", "licence of its runs", "published", "title"],
            *([f"  {name}", p.state(), p.licence(), f"{len(p.cells)} cells", p.title] for name, p in papers),
        ],
        "systems": [
            ["  name", "title", "state"],
            *([f"  {name}", str(s.get("title", "")), system_state(s)] for name, s in systems),
        ],
        "sources": [
            ["  name", "licence", "title"],
            *([f"  {name}", str(s.get("licence", "")), str(s.get("title", ""))] for name, s in sources),
        ],
    }
    for heading, rows in tables.items():
        out(heading)
        _print_left(rows)


def _print_left(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        out("  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True)).rstrip())


store_app = typer.Typer(help="What is kept so that it need not be computed again: indexes and the like.")
app.add_typer(store_app, name="store", rich_help_panel=None)


@store_app.command(name="ls")
def store_ls() -> None:
    """Everything in the store, the longest unused first."""
    from harness.store import artefacts, store_root

    found = artefacts()
    rows = [[a.kind, a.key[:12], _size(a.size), _day(a.used), str(a.spec.get("corpus", ""))] for a in found]
    if rows:
        _print_left([["kind", "key", "size", "last used", "of"], *rows])
    out(f"{len(found)} artefacts, {_size(sum(artefact.size for artefact in found))} in {store_root()}")


@store_app.command(name="gc")
def store_gc(
    days: Annotated[float, typer.Option(min=0, help="Delete what has not been used for so many days; 0: all.")] = 30,
) -> None:
    """Delete what has not been used for long, and what killed processes left."""
    from harness.store import collect

    gone = collect(days)
    out(f"{len(gone)} artefacts deleted, {_size(sum(artefact.size for artefact in gone))} freed")


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")


@app.command()
def doctor() -> None:
    """What is missing on this machine, and what mends it."""
    from harness.doctor import findings

    rows = findings()
    _print_left([["check", "state", "what to do"], *rows])


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def reproduce() -> None:
    """Recompute a paper's tables: paper=crossmath, or paper=all; without a paper, the embedded demonstration."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def run() -> None:
    """Produce, score and report one run: collection=... corpus=... system=...; -m sweeps."""


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version when asked, and what there is to ask without a command."""
    if show:
        out(f"mathir-harness {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        out(context.get_help())
        raise typer.Exit


def main() -> None:
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error.

    What a system raises is told with the traceback of its own frames; with HYDRA_FULL_ERROR=1, any fault with all.
    """
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"  # Hydra's commands set it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character (such as the prime of nDCG′) gets its escape, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        if len(sys.argv) > 1 and sys.argv[1] in HYDRA_COMMANDS:
            from harness.hydra_main import main as hydra_main

            hydra_main(sys.argv[1], sys.argv[2:])
            return
        code = app(standalone_mode=False)
        if code == interrupt.CODE:  # Typer has caught it
            interrupt.tell()
        sys.exit(code if isinstance(code, int) else 0)
    except (HarnessError, typer.TyperException) as error:
        if interrupt.stopping():  # only what some library made of it
            interrupt.leave()
        _tell(error, full)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        interrupt.tell()
        sys.exit(interrupt.CODE)
    except BrokenPipeError:
        leave_pipe(sys.stdout)


def _tell(error: HarnessError | typer.TyperException, full: bool) -> None:
    if full:
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, SystemRaisedError):
        say(error.trace)
    text = str(error) if isinstance(error, HarnessError) else " ".join(error.format_message().split())
    say("\n".join(f"harness: {line}" for line in text.splitlines()))


if __name__ == "__main__":
    main()
