"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import __version__
from harness.console import leave_pipe, out, say
from harness.errors import HarnessError, suggestion

if TYPE_CHECKING:
    from harness.fetch import Resource
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
Runs = Annotated[list[Path], typer.Argument(help="Run files (TREC or ARQMath; plain, gzip or xz).")]
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
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for a report; none is written without it.")]


def _evaluate(
    paths: Sequence[Path],
    collection_name: str,
    edition: str | None,
    protocol: str | None,
    format: str | None,
    measures: str | None,
    keys: str | None,
) -> tuple[Evaluation, dict[str, str]]:
    """Runs read, checked and scored; and the checksum of each file."""
    from harness.collections import load_collection, read_keys
    from harness.workflow import evaluate, read_runs

    collection = load_collection(collection_name)
    wanted = None if measures is None else _measures(measures)
    mapping = None if keys in (None, "none") else read_keys(Path(keys), *_key_columns(Path(keys)))
    scorer = collection.scorer(edition, protocol, measures=wanted, keys=mapping, ids_are_keys=keys == "none")
    if keys is not None and not scorer.protocol.deduplicate:
        raise HarnessError(f"--keys {keys}: protocol {scorer.protocol.name} does not de-duplicate, so keys have no use")
    runs = read_runs(paths, format=format, known_topics=collection.topics().ids())
    evaluation = evaluate(collection, scorer, runs)
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
    output: Output = None,
    topics: Annotated[bool, typer.Option("--topics", help="Print every topic instead of means.")] = False,
) -> None:
    """Score run files that anyone made."""
    evaluation, files = _evaluate(runs, collection, edition, protocol, format, measures, keys)
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
    output: Output = None,
    alpha: Annotated[float, typer.Option(help="Level of significance.")] = 0.05,
    family: Annotated[
        int | None, typer.Option(help="Number of tests to correct for; default: those made here.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the randomization test.")] = 0,
) -> None:
    """Significance tables: paired t-tests, Bonferroni and Holm, randomization tests."""
    from harness import stats

    evaluation, files = _evaluate(runs, collection, edition, protocol, format, measures, keys)
    if len(evaluation.scores) < 2:
        raise HarnessError("compare: needs two runs or more")
    label = evaluation.scores[0].protocol.label
    tested = [m for m in evaluation.scores[0].measures if not m.startswith("Judged")]
    comparison = stats.compare(evaluation.scores, baseline, measures=tested, alpha=alpha, family=family, seed=seed)
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
    names: Annotated[list[str], typer.Argument(help="Collections, papers or sources; see 'harness list'.")],
    probe: Annotated[bool, typer.Option("--probe", help="Only say whether the files can be had.")] = False,
) -> None:
    """Fetch the files of collections, papers and sources, checked against their checksums."""
    from harness import config, fetch

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


def _files(name: str) -> list[Resource]:
    from harness import config
    from harness.collections import load_collection
    from harness.papers import load_paper, paper_names

    if name in config.names("collection"):
        return load_collection(name).files()
    if name in paper_names():
        return load_paper(name).files()
    if name in config.names("source"):
        return config.source_files(name)
    known = [*config.names("collection"), *paper_names(), *config.names("source")]
    raise HarnessError(f"fetch {name!r}: neither a collection nor a paper nor a source; {suggestion(name, known)}")


@app.command(name="list")
def list_() -> None:
    """What exists: collections, papers, systems, with licence and state."""
    from harness import config
    from harness.collections import load_collection
    from harness.papers import load_paper, paper_names
    from harness.systems import missing_module

    collections = [(name, load_collection(name)) for name in config.names("collection")]
    papers = [(name, load_paper(name)) for name in paper_names()]
    systems = [(name, config.load("system", name)[0]) for name in config.names("system")]
    sources = [(name, config.load("source", name)[0]) for name in config.names("source")]
    # Everything is read before anything is printed: half a list looks like a whole one.
    tables = {
        "collections": [
            ["  name", "state", "licence", "editions"],
            *([f"  {name}", c.state(), c.licence, "/".join(c.editions)] for name, c in collections),
        ],
        "papers": [
            ["  name", "state", "licence of its runs", "published", "title"],
            *([f"  {name}", p.state(), p.licence(), f"{len(p.cells)} cells", p.title] for name, p in papers),
        ],
        "systems": [
            ["  name", "state", "title"],
            *([f"  {name}", missing_module(s) or "here", str(s.get("title", ""))] for name, s in systems),
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
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error."""
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
        sys.exit(code if isinstance(code, int) else 0)
    except HarnessError as error:
        say("\n".join(f"harness: {line}" for line in str(error).splitlines()))
        sys.exit(2)
    except typer.TyperException as error:
        say(f"harness: {' '.join(error.format_message().split())}")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        say("harness: stopped; what was written is whole")
        sys.exit(130)
    except BrokenPipeError:
        leave_pipe(sys.stdout)


if __name__ == "__main__":
    main()
