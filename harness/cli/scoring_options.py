"""What `score`, `compare` and `leaderboard` share: the runs and judgments that are asked for, and their evaluation."""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli import options
from harness.cli.options import parameters_of, to_path
from harness.errors import HarnessError, counted_text
from harness.io.console import hide_progress, log_line, print_line
from harness.io.names import check_name

if TYPE_CHECKING:
    from harness.collections.collection import Collection
    from harness.experiments.evaluate import Evaluation
    from harness.experiments.evaluation import JointEvaluation
    from harness.experiments.task import Task


@dataclass(frozen=True)
class ScoringOptions:
    """Options of these commands."""

    runs: options.Runs
    collection: options.CollectionName = None
    qrels: options.Judgments = None
    topics: options.TopicFile = None
    edition: options.Edition = None
    protocol: options.ProtocolName = None
    format: options.Format = None
    measures: options.Measures = None
    keys: options.Keys = None
    corpus: options.CorpusName = None
    json: options.AsJson = False
    redact: options.Redact = False
    quiet: options.Quiet = False
    lines: bool = True  # no option: whether the runs are shown line by line

    def __post_init__(self) -> None:
        if self.quiet:
            hide_progress()
        if self.topics is not None and self.qrels is None:
            raise HarnessError("--topics: takes a file of topics, and goes with --qrels")

    def note(self, line: str) -> None:
        """Prints a warning or a line on progress, unless `--quiet` hides them."""
        if not self.quiet:
            log_line(line)

    @property
    def collections(self) -> list[str]:
        """The collections that are named, as NAME or NAME/EDITION."""
        return [name.strip() for name in (self.collection or "").split(",") if name.strip()]

    def commands(self, evaluation: Evaluation) -> dict[str, str]:
        """Returns run -> the command that made it by its metadata file, else the one that scores it alone."""
        from harness.store.sidecar import recorded_command, sidecar_path

        names = ("collection", "qrels", "topics", "edition", "protocol", "format", "measures", "keys", "corpus")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return {
            run.name: recorded_command(sidecar_path(Path(run.source)), run.sha256)
            or shlex.join(["harness", "score", text, *options])
            for run, text in zip(evaluation.runs, self.runs, strict=True)
        }


def with_scoring_options(*without: str, several: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator of a command, which takes `ScoringOptions` first, that adds their options to its own.

    Parameters
    ----------
    without : options that the command does not have.
    several : whether it takes several collections.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        shared = {name: each for name, each in parameters_of(ScoringOptions).items() if name not in (*without, "lines")}
        if several:
            shared["collection"] = shared["collection"].replace(annotation=options.CollectionNames)
        _, *own = parameters_of(function).values()
        first = [each for name, each in shared.items() if name not in ("json", "redact", "quiet")]
        last = [each for each in shared.values() if each not in first]

        @wraps(function)
        def command(*placed: Any, **given: Any) -> None:  # noqa: ANN401  (the values of any options)
            given |= dict(zip((each.name for each in parameters), placed, strict=False))
            asked = ScoringOptions(**{"runs": [], **{name: given.pop(name) for name in list(given) if name in shared}})
            function(asked, **given)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*first, *own, *last)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def note_unless(quiet: bool) -> Callable[[str], None]:
    """Returns the function for warnings and progress, which `--quiet` hides."""
    if not quiet:
        return log_line
    hide_progress()
    return lambda _: None


def evaluate_options(asked: ScoringOptions) -> Evaluation:
    """Reads, checks and scores the runs; prints coverage and warnings."""
    from harness.experiments.evaluate import cautions
    from harness.experiments.evaluate import evaluate as evaluate_runs
    from harness.io import config
    from harness.store.sidecar import made_on, sidecar_path

    names, paths = labelled(asked.runs)
    this_task = _task(asked)
    evaluation = evaluate_runs(this_task, *paths, names=names, format=asked.format, lines=asked.lines)
    made = [made_on(sidecar_path(path)) for path in paths] if asked.corpus is None else []
    for name in dict.fromkeys(made):
        if name in config.names("corpus") and (lost := _lost(name, this_task, counts=not asked.redact)):
            many = made.count(name)
            were = f"{paths[made.index(name)]} was" if many == 1 else f"{many} runs were"
            asked.note(f"{were} made on corpus {name}{lost}; --corpus {name} restricts the judgments to its documents")
    if (said := evaluation.coverage_sentence()) and not (asked.json or asked.redact):
        print_line(said)
    # What is said of results without a key or judgment, or of ties, tells what is judged.
    for caution in evaluation.run_warnings if asked.redact else cautions(evaluation):
        asked.note(f"warning: {caution}")
    if asked.qrels is not None and asked.topics is None and not asked.redact:
        for scores in evaluation.scores:
            if unjudged := scores.counts["topics without judgments"]:
                asked.note(f"{scores.run}: {counted_text(unjudged, 'topic')} without judgments, not counted")
    return evaluation


def check_one_collection(asked: ScoringOptions, command: str) -> None:
    """Raises HarnessError if several collections are named."""
    if len(asked.collections) > 1:
        said = f"'compare -c {','.join(asked.collections)}' tests over several"
        raise HarnessError(f"{command}: takes one collection; {said}")


def evaluate_on_collections(asked: ScoringOptions) -> JointEvaluation:
    """Reads, checks and scores runs on several collections; prints coverage and warnings."""
    from harness.experiments.evaluate import cautions, evaluate

    for option, value in (("--edition", asked.edition), ("--topics", asked.topics), ("--redact", asked.redact or None)):
        if value is not None:
            right = "; say NAME/EDITION" if option == "--edition" else ""
            raise HarnessError(f"{option}: goes with one collection{right}")
    tasks = []
    for text in asked.collections:
        name, _, edition = text.partition("/")
        tasks.append(_task(replace(asked, collection=name, edition=edition or None)))
    names, paths = labelled(asked.runs, repeated=True)
    evaluation = evaluate(tasks, *paths, names=names, format=asked.format, lines=False)
    for name, part in evaluation.parts.items():
        if (said := part.coverage_sentence()) and not asked.json:
            print_line(f"{name}: {said}")
        for caution in cautions(part):
            asked.note(f"warning: {name}: {caution}")
    return evaluation


def _task(asked: ScoringOptions) -> Task:
    """Returns the task of one collection, or of judgments alone."""
    from harness.collections.files import read_key_pairs
    from harness.collections.load import load_collection, local_collection
    from harness.experiments.task import task

    if asked.collection is not None and asked.qrels is not None:
        raise HarnessError("--collection and --qrels: say one of them; both name the judgments")
    if asked.qrels is not None:
        if asked.edition is not None:
            raise HarnessError("--edition: names judgments of a collection; those of --qrels have no editions")
        collection = local_collection(asked.qrels, asked.topics)
    elif asked.collection is not None:
        collection = load_collection((asked.collections or [asked.collection])[0])
    else:
        raise HarnessError("no judgments: name a collection with --collection NAME, or a file with --qrels FILE")
    wanted = () if asked.measures is None else measure_list(asked.measures)
    mapping = None
    if asked.keys not in (None, "none"):
        mapping = read_key_pairs(Path(str(asked.keys)))
    find_readers(collection, asked.corpus)
    return task(
        collection,
        asked.corpus,
        edition=asked.edition,
        protocol=asked.protocol,
        measures=wanted,
        keys=mapping,
        ids_are_keys=asked.keys == "none",
    )


def _lost(name: str, task: Task, *, counts: bool) -> str:
    """Returns in words how many topics a corpus leaves without a relevant document; empty if it has all judged ones.

    Parameters
    ----------
    counts : whether the number may be told, which private judgments forbid.
    """
    from harness.collections.corpora import load_corpus
    from harness.experiments.task import covered

    corpus = load_corpus(name)
    if corpus.state() != "here":
        return ", which is not here"
    coverage = covered(task, corpus)
    if coverage.complete:
        return ""
    if not counts:
        return ", which lacks judged documents"
    lost = coverage.topics - coverage.relevant_from(task.scorer.protocol.relevant_from)
    return f", where {lost:,} of {counted_text(coverage.topics, 'judged topic')} have no relevant document"


def find_readers(collection: Collection, corpus: str | None) -> None:
    """Lets reader functions be imported from the current folder, if the collection or a corpus names any."""
    if foreign_readers(collection, corpus):
        from harness.cli.settings import import_from_here

        import_from_here()


def foreign_readers(collection: Collection, corpus: str | None) -> list[str]:
    """Returns the reader functions, MODULE:FUNCTION, that a collection and a corpus name."""
    from harness.collections import forms
    from harness.collections.corpora import load_corpus
    from harness.io import config

    readers = [edition.reader for edition in collection.editions.values()]
    readers += [] if collection.topic_file is None else [collection.topic_file.reader]
    for name in config.names("corpus").keys() & {corpus, collection.corpus}:
        with suppress(HarnessError):  # a fault is reported by who needs the corpus
            readers.append(load_corpus(name).reader.name)
    return [reader for reader in readers if forms.is_foreign(reader)]


def labelled(texts: Sequence[str], *, repeated: bool = False) -> tuple[list[str], list[Path]]:
    """Returns names (empty: the file's own) and paths of arguments `[NAME=]FILE`; an existing file may contain `=`.

    Parameters
    ----------
    repeated : whether files may share a name, as those of a run on several collections.
    """
    names: list[str] = []
    paths: list[Path] = []
    for text in texts:
        name, labelled, file = text.partition("=")
        if not labelled or exists(text):
            name, file = "", text
        elif not exists(file):
            raise HarnessError(f"{text}: no such file, nor {file or 'an empty name'!r} (as NAME=FILE)")
        elif name in names and not repeated:
            raise HarnessError(f"{text}: another run is named {name!r} already")
        else:
            check_name(name, text)
        names.append(name)
        paths.append(to_path(file))
    return names, paths


def exists(path: str) -> bool:
    """Returns whether a text is the path of a file; false if it is too long for one."""
    return os.path.exists(path)  # noqa: PTH110  (Path's raises for what is too long to be a file's name)


def measure_list(text: str) -> tuple[str, ...]:
    """Parses `--measures`, such as `nDCG@10,AP`."""
    from harness.scoring.measures import parse_measures
    from harness.scoring.spellings import split_measures

    wanted = split_measures(text)
    if not wanted:
        raise HarnessError(f"--measures {text!r}: names no measure; expected a list such as nDCG@10,AP")
    return tuple(str(measure) for measure in parse_measures(wanted))


def log_private_judgments(asked: ScoringOptions, evaluation: Evaluation) -> None:
    """Warns that a report with private judgments is not for participants."""
    edition = evaluation.task.collection.edition(evaluation.scores[0].edition)
    if edition.private:
        asked.note(f"edition {edition.name} is private, and this report shows its judgments; --redact leaves them out")


def parse_margin(text: str | None) -> float | dict[str, float] | None:
    """Returns the margin of a test of equivalence: one for all measures, or one by measure.

    >>> parse_margin("0.02"), parse_margin("nDCG=0.02, P@10=0.05")
    (0.02, {'nDCG': 0.02, 'P@10': 0.05})
    """
    if text is None:
        return None
    from harness.scoring.spellings import split_measures

    margins: dict[str, float] = {}
    for part in split_measures(text):
        name, _, number = part.rpartition("=")
        try:
            margins[name.strip()] = float(number)
        except ValueError:
            raise HarnessError(f"margin: {number!r} is not a number; expected 0.02, or nDCG=0.02,P@10=0.05") from None
    if not margins or ("" in margins and len(margins) > 1):
        raise HarnessError(f"margin: {text!r}; expected one number, or a number by measure: nDCG=0.02,P@10=0.05")
    return margins.get("", margins)
