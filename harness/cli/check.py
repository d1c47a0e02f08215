"""The command `check`: run files checked for faults, coverage, ties and suspicious scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import RUNS, in_panel
from harness.cli.options import CollectionName, Edition, Judgments, Quiet, TopicFile, to_path
from harness.cli.scoring_options import exists, labelled
from harness.errors import FormatError, HarnessError, printable, suggestion
from harness.io.console import log_line, print_line

if TYPE_CHECKING:
    from harness.scoring.inspection import Finding, InspectionContext

_FORMS = ("text", "sarif")
_LEVELS = ("error", "warning", "note", "never")
Place = tuple[str, int, "Finding"]  # file, line (0: the whole file), finding


@in_panel(RUNS)
def check_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FILE", help="Run files (TREC or ARQMath; plain, gzip, xz or zstd).")
    ],
    collection: CollectionName = None,
    qrels: Judgments = None,
    topics: TopicFile = None,
    edition: Edition = None,
    corpus: Annotated[
        str | None, typer.Option("--corpus", help="Report documents that this corpus lacks; reads all of it.")
    ] = None,
    run_format: Annotated[
        str | None, typer.Option("--run-format", help="Format of the run files: trec, arqmath-task1, arqmath-task2.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="Form of the report: text or sarif.")] = "text",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=to_path, metavar="FILE", help="Write the report here, and print text."),
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="Exit with code 1 from this level on: error, warning, note, never; with 2 for what scoring refuses.",
        ),
    ] = "error",
    quiet: Quiet = False,
) -> None:
    """Check run files: format, coverage, ties, suspicious scores; as text or SARIF."""
    from harness.data.layouts import FORMATS
    from harness.io.files import write_atomic

    for option, given, known in (("--format", form, _FORMS), ("--fail-on", fail_on, _LEVELS)):
        if given not in known:
            raise HarnessError(f"{option} {given}: unknown; {suggestion(given, known)}")
    if run_format is not None and run_format not in FORMATS:
        raise HarnessError(f"--run-format {run_format}: no such format; {suggestion(run_format, FORMATS)}")
    names, paths = labelled(runs)
    for path in paths:
        if not exists(str(path)):
            raise HarnessError(f"{path}: no such file")
    against = _against(collection, qrels, topics, edition, corpus, quiet)
    places = [
        place
        for name, path in zip(names, paths, strict=True)
        for place in checked(path, against, run_format, name=name or None)
    ]
    lines = _text(places, len(paths))
    report = "\n".join(lines) if form == "text" else json.dumps(_sarif(places), indent=1)
    if output is not None:
        write_atomic(output, f"{report}\n")
    for line in lines if form == "text" or output is not None else [report]:
        print_line(line)
    if fail_on != "never" and any(finding.rule.refused for _, _, finding in places):
        raise typer.Exit(2)
    fails = _LEVELS[: _LEVELS.index(fail_on) + 1] if fail_on != "never" else ()
    if any(finding.rule.level in fails for _, _, finding in places):
        raise typer.Exit(1)


def checked(
    path: Path, against: InspectionContext, run_format: str | None = None, *, name: str | None = None
) -> list[Place]:
    """Returns the findings on one file with their lines; a file that is no valid run has the rule `format`."""
    from harness.data.layouts import line_numbers
    from harness.data.trec import parse_run, run_bytes
    from harness.scoring.inspection import RULES, Finding, inspect

    try:
        data = run_bytes(path)
        run = parse_run(data, str(path), name=name, format=run_format)
    except FormatError as error:
        return [(str(path), each.line, Finding(RULES["format"], each.reason)) for each in error.problems]
    except HarnessError as error:  # a damaged archive
        reasons = [line.removeprefix(f"{path}: ") for line in error.lines]
        return [(str(path), 0, Finding(RULES["format"], reason)) for reason in reasons]
    findings = inspect(run, against)
    lines = line_numbers(data) if any(finding.row is not None for finding in findings) else []
    return [(str(path), finding.line if finding.row is None else lines[finding.row], finding) for finding in findings]


def _text(places: Sequence[Place], runs: int) -> list[str]:
    lines = []
    for path, line, finding in places:
        where = f"{path}:{line}" if line else path
        lines.append(printable(f"{where}: {finding.rule.level}: {finding.message} [{finding.rule.name}]"))
    counts: Counter[str] = Counter(finding.rule.level for _, _, finding in places)
    said = ", ".join(f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in _LEVELS[:-1])
    return [*lines, f"{runs} {'run' if runs == 1 else 'runs'} checked: {said}"]


def _sarif(places: Sequence[Place]) -> dict[str, object]:
    from harness.render.formats import SarifFinding, SarifRule, sarif
    from harness.scoring.inspection import RULES
    from harness.version import __version__

    results = [SarifFinding(finding.rule.name, finding.message, path, line) for path, line, finding in places]
    rules = [SarifRule(rule.name, rule.level, rule.title, rule.help) for rule in RULES.values()]
    return sarif(results, rules, "mathir-harness", __version__)


def _against(
    collection: str | None,
    qrels: Path | None,
    topics: Path | None,
    edition: str | None,
    corpus: str | None,
    quiet: bool,
) -> InspectionContext:
    """Returns what the runs are checked against; private judgments are not read."""
    from harness.cli.scoring_options import foreign_readers
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection, local_collection
    from harness.experiments.task import task
    from harness.io.modules import installed
    from harness.scoring.inspection import InspectionContext
    from harness.scoring.protocol import load_protocol

    if collection is not None and qrels is not None:
        raise HarnessError("--collection and --qrels: say one of them; both name the judgments")
    if topics is not None and qrels is None:
        raise HarnessError("--topics: takes a file of topics, and goes with --qrels")
    documents = None if corpus is None else load_corpus(corpus)
    if collection is None and qrels is None:
        if edition is not None:
            raise HarnessError("--edition: goes with --collection")
        return InspectionContext(documents=None if documents is None else frozenset(documents.ids()))
    judged_collection = local_collection(qrels, topics) if qrels is not None else load_collection(str(collection))
    for reader in foreign_readers(judged_collection, corpus):
        module = reader.partition(":")[0]
        if not installed(module, here=False):
            raise HarnessError(
                f"reader {reader!r}: module {module!r} is not installed, and 'check' runs no code found here; "
                "install the package, or name the judgments with --qrels"
            )
    protocol = load_protocol(judged_collection.protocol)
    chosen = judged_collection.edition(edition)
    if chosen.private and not quiet:
        log_line(f"edition {chosen.name} is private: nothing is checked against its judgments")
    known = judged_collection.known_topics()
    keys = None
    if protocol.deduplicate and not (documents is not None and documents.ids_are_keys):
        keys = (documents.keys() if documents is not None else None) or judged_collection.keys()
    ids_are_keys = documents is not None and documents.ids_are_keys
    scorer = None
    # Judgments are of keys, to which something must map the documents.
    if not chosen.private and (not protocol.deduplicate or keys is not None or ids_are_keys):
        scorer = task(judged_collection, edition=chosen.name, keys=keys, ids_are_keys=ids_are_keys).scorer
    return InspectionContext(
        known,
        known if chosen.private else frozenset(judged_collection.qrels(chosen.name).topics),
        None if documents is None else frozenset(documents.ids()),
        None if scorer is None else scorer.qrels.judged(),
        keys,
        protocol.depth,
        scorer,
    )
