"""Recomputes a paper's numbers from its archived runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.collections.collection import Collection
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Run, read_run
from harness.errors import HarnessError, counted_text, suggestion
from harness.experiments.costs import COLUMNS
from harness.experiments.costs import of_run as costs_of_run
from harness.experiments.task import task
from harness.io.checks import Lack
from harness.papers.cells import KINDS, CellVerdict, Judgement, Printed, PublishedCell, judge, predicted
from harness.papers.paper import Archive, ArchivedRun, Paper, PaperCollection, ScoredRows
from harness.papers.paper_settings import CostUnit
from harness.papers.records import marked, rehearsed_version
from harness.papers.user_runs import Brought, BroughtRun
from harness.scoring.protocol import load_protocol
from harness.scoring.scorer import Ranking, Scorer
from harness.scoring.scores import Scores
from harness.sources.fetch import fetch_resources
from harness.store import sidecar

Say = Callable[[str], None]
Spans = Mapping[str, tuple[float, float]]
Source = ArchivedRun | BroughtRun
Track = Callable[[Sequence[Source], str], Iterable[Source]]


@dataclass(frozen=True)
class PaperReproduction:
    """Everything recomputed for one paper.

    Attributes
    ----------
    scores : (the paper's collection, run) -> scores by the paper's protocol.
    also : further protocol -> scores as in `scores`, on the same editions.
    bounds : (collection, run) -> measure -> lowest and highest mean over the orders of ties, where they differ.
    topics : the paper's collection -> its topics with attributes.
    checked : what the paper's module found in its topics.
    warnings : warnings of the readers of run files.
    again : comparisons of archived runs with re-runs; empty unless requested.
    brought : runs that replace archived ones, or serve rows without an archived run.
    files : name -> SHA-256 of every file read.
    """

    paper: Paper
    verdicts: tuple[CellVerdict, ...]
    scores: Mapping[tuple[str, str], Scores]
    also: Mapping[str, Mapping[tuple[str, str], Scores]]
    bounds: Mapping[tuple[str, str], Spans]
    topics: Mapping[str, Topics]
    checked: Sequence[Any]
    warnings: tuple[str, ...]
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    rankings: Mapping[tuple[str, str], Mapping[str, Ranking]] = field(default_factory=dict)
    again: Sequence[Any] = ()
    brought: Brought = field(default_factory=Brought)
    files: Mapping[str, str] = field(default_factory=dict)

    def count(self, verdict: Judgement) -> int:
        """Counts the cells with a verdict."""
        return sum(v.verdict == verdict for v in self.verdicts)

    @property
    def line(self) -> str:
        """Outcome in one line."""
        tables = [v for v in self.verdicts if v.cell.table[:1].isdigit()]
        exact = sum(v.verdict == "exact" for v in tables)
        parts = [f"{exact} of {len(tables)} table cells exact"] if tables else []
        rest = [v for v in self.verdicts if not v.cell.table[:1].isdigit()]
        if rest:
            what = "values of its text" if tables else "printed numbers"  # a paper may not number its tables
            parts.append(f"{sum(v.verdict == 'exact' for v in rest)} of {len(rest)} {what} exact")
        phrases = {"needs": "need a resource"}
        parts += [f"{self.count(kind)} {phrases.get(kind, kind)}" for kind in KINDS[1:] if self.count(kind)]
        return f"{self.paper.key}: {', '.join(parts)}"


def without_progress(runs: Sequence[Source], _: str) -> Iterable[Source]:
    """Shows no progress."""
    return runs


def recompute_paper(
    paper: Paper,
    say: Say = lambda _: None,
    track: Track = without_progress,
    *,
    rerun: bool = False,
    brought: Brought | None = None,
    restricted: bool = False,
) -> PaperReproduction:
    """Recomputes every cell that can be recomputed.

    Parameters
    ----------
    say : called with progress messages, one line each.
    track : iterates over the runs and shows progress, such as `console.track`.
    rerun : also re-runs archived runs, if the paper's configuration says how.
    brought : runs from `harness.papers.user_runs.bring`; they replace archived runs of the same rows.
    restricted : whether judgments are limited to the documents of the corpus that the runs of a collection searched.

    Raises
    ------
    HarnessError
        A file is unavailable or its checksum differs. Missing runs of papers without an archive are verdicts
        (`config.state`), not errors.
    """
    brought = brought or Brought()
    scored = paper.scored
    if scored is None or not (paper.runs or brought.runs):
        verdicts = tuple(_not_recomputed(paper, cell) for cell in paper.cells)
        return PaperReproduction(paper, verdicts, {}, {}, {}, {}, (), ())
    settings = paper.config.rerun if rerun else None
    if settings is not None:
        paper.own("check_rerun")(paper)
    sources = _sources(paper, brought)
    used = {source.collection for source in sources}
    entries = {key: entry for key, entry in scored.collections.items() if key in used}
    collections = {key: load_collection(entry.collection) for key, entry in entries.items()}
    replaced = {run.file for run in paper.runs} - {run.file for run in sources if isinstance(run, ArchivedRun)}
    files = [file for file in paper.files() if file not in replaced]
    files += [file for collection in collections.values() for file in collection.files()] if not paper.runs else []
    fetch_resources(files, progress=say)
    topics = {key: collection.topics() for key, collection in collections.items()}
    corpora = _corpora(brought) if restricted else {}
    scorers = {
        key: _scorer(collections[key], entry, scored.protocol, brought, corpora.get(key, ""))
        for key, entry in entries.items()
    }
    others = {
        name: {key: _scorer(collections[key], entry, name, brought) for key, entry in entries.items()}
        for name in paper.config.also
    }
    scores: dict[tuple[str, str], Scores] = {}
    also: dict[str, dict[tuple[str, str], Scores]] = {name: {} for name in others}
    bounds: dict[tuple[str, str], Spans] = {}
    rankings: dict[tuple[str, str], dict[str, Ranking]] = {}
    warnings: list[str] = []
    remade: dict[tuple[str, str], Run] = {}
    for source in track(sources, f"{paper.key}: scoring runs"):
        key = (source.collection, source.name)
        if isinstance(source, BroughtRun):
            run = source.run
        else:
            run = read_run(local(source.file), name=source.name, known_topics=topics[source.collection].ids())
            if settings is not None and source.name in settings.runs:
                remade[key] = run
        warnings += [str(warning) for warning in run.warnings]
        scores[key] = scorers[source.collection](run)
        rankings[key] = scorers[source.collection].rankings(run)
        spans = scorers[source.collection].tie_spans(run, scores[key])
        bounds |= {key: spans} if spans else {}
        for name, by_collection in others.items():
            also[name][key] = by_collection[source.collection](run)
    verdicts = tuple(_verdict_of(paper, scored, cell, scores, brought, topics) for cell in paper.cells)
    check_topics = paper.own("check_topics")
    checked = check_topics(paper, scorers) if check_topics else ()
    again = () if settings is None else paper.own("rerun")(paper, remade, scorers)
    read = {file.name: file.sha256 for file in files}
    read |= {run.source: run.run.sha256 for run in brought.runs if run.origin != "fused"}
    context = (scores, also, bounds, topics, checked, tuple(warnings), scorers, rankings, again)
    return PaperReproduction(paper, verdicts, *context, brought, read)


def _sources(paper: Paper, brought: Brought) -> list[Source]:
    """Returns the runs to score: those of the archive in the order of its configuration, then the others."""
    archived: dict[tuple[str, str], Source] = {(run.collection, run.name): run for run in paper.runs}
    return list((archived | {(run.collection, run.name): run for run in brought.runs}).values())


def _corpora(brought: Brought) -> dict[str, str]:
    """Returns the paper's collection -> corpus that its runs searched, by the metadata file of the first one."""
    corpus_of: dict[str, str] = {}
    for run in brought.runs:
        said = sidecar.read_sidecar(sidecar.sidecar_path(Path(run.source))) if run.origin != "fused" else None
        if said is not None and said.corpus:
            corpus_of.setdefault(run.collection, said.corpus)
    return corpus_of


def _scorer(
    collection: Collection, entry: PaperCollection, protocol: str, brought: Brought, corpus: str = ""
) -> Scorer:
    """Returns the scorer of a collection; its own protocol takes precedence over the paper's."""
    how = load_protocol(entry.protocol or protocol)
    if corpus:
        return task(collection, corpus, edition=entry.edition, protocol=how).scorer
    return collection.scorer(entry.edition, how, keys=brought.keys if how.deduplicate else None)


def _not_recomputed(paper: Paper, cell: PublishedCell, needs: str = "") -> CellVerdict:
    """Returns the verdict on a cell without a value: what its row lacks, or the reason in the configuration.

    `needs` is the missing input if the user supplied some of the runs.
    """
    lacking: tuple[Lack, str] = ("needs", needs) if needs else paper.lack(cell)
    kind, why = lacking
    if kind == "needs":  # at which version the row's recipe passed on stand-ins is said with it
        group, system = cell.group, cell.system
        labels = (system, f"{group} / {system}", f"{group}, {system}", f"{system}, {group}")
        why = marked(why, rehearsed_version(paper.key, cell.table, labels))
    note = paper.config.metric_notes.get(cell.metric)
    return CellVerdict(cell, kind, cause=f"{why}; {note}" if note else why)


def _verdict_of(
    paper: Paper,
    scored: ScoredRows,
    cell: PublishedCell,
    scores: Mapping[tuple[str, str], Scores],
    brought: Brought,
    topics: Mapping[str, Topics],
) -> CellVerdict:
    names, collection, topic, cause = _runs_of(paper, cell, brought), scored.searched(cell), "", ""
    for entry in scored.identified if isinstance(scored, Archive) else ():
        if all(getattr(cell, key) == value for key, value in entry.cell.items()):
            names, collection, topic, cause = (entry.run,), entry.collection, entry.topic, entry.cause
    of_runs = [scores[collection, name] for name in names if (collection, name) in scores]
    spent = paper.config.costs.get(cell.metric)
    measure = scored.measures.get(cell.metric) if spent is None else spent.column
    if not of_runs or measure is None:
        return _not_recomputed(paper, cell, brought.lacking.get((collection, "".join(names[:1])), ""))
    if len(of_runs) < len(names):
        return _not_recomputed(paper, cell, f"{len(names)} runs, one per seed, of which {len(of_runs)} are available")
    if (wanted := scored.slices.get(cell.slice)) is not None:
        part = {t.id for t in topics[collection] if wanted.items() <= t.attributes.items()}
        of_runs = [one.select(part) for one in of_runs]
        if not of_runs[0].topics:
            return _not_recomputed(paper, cell)
    first = of_runs[0]
    if not topic and cell.slice in first.topics:
        topic = cell.slice
    if topic and topic not in first.topics:
        raise HarnessError(f"{paper.where}: topic {topic!r} is not judged; {suggestion(topic, first.topics)}")
    if cell.slice and not topic and wanted is None:
        return _not_recomputed(paper, cell)
    if spent is not None:
        made_here = {(run.collection, run.name): run for run in brought.runs if run.origin == "made here"}
        values = [_spent(spent, made_here.get((collection, name))) for name in names]
        n, cause = 0, "costs measured on this machine"
        if any(map(math.isnan, values)):
            gpu = " on a GPU" * measure.startswith("gpu")
            return _not_recomputed(paper, cell, f"a run that was made here{gpu} and says its {measure}")
    elif topic:
        values, n = [float(one.column(measure)[one.topics.index(topic)]) for one in of_runs], 1
    else:
        values, n = [one.aggregate(measure) for one in of_runs], first.n(measure)
    if cell.aggregate == "best_seed":
        leading = next(iter(scored.measures.values()))
        at = max(range(len(of_runs)), key=lambda number: of_runs[number].aggregate(leading))
        value, ran = values[at], names[at]
    else:
        value, ran = math.fsum(values) / len(values), ", ".join(names)
    fused = [run for run in brought.runs if (run.origin, run.collection, run.name) == ("fused", collection, *names)]
    cause = cause or "".join(f"fused here: {run.name} from {run.source}" for run in fused[:1])
    cause = cause or _seeds_remark(cell, len(values))
    made = (ran, first.collection, first.edition, first.protocol.name, measure, n, cause)
    kind = judge(cell.value, value)
    if kind == "differs" and len(values) > 1:
        printed: Printed = "best" if cell.aggregate == "best_seed" else "mean" if "mean" in cell.aggregate else "run"
        low, high = predicted(values, printed, _printed_seeds(cell))
        kind = "within" if low <= float(cell.value) <= high else kind
        cause = "; ".join(filter(None, (cause, f"{len(values)} seeds: expected between {low:.4f} and {high:.4f}")))
        made = (*made[:-1], cause)
    partial = any(run.in_part for run in brought.runs if (run.collection, run.name) == (collection, ran))
    return CellVerdict(cell, kind, value, *made, in_part=partial)


def _spent(what: CostUnit, run: BroughtRun | None) -> float:
    """Returns what a run that was made here cost; NaN if it is unknown."""
    cost = None if run is None else COLUMNS[what.column].of([costs_of_run(Path(run.source))])
    return math.nan if cost is None else cost / what.unit


def _printed_seeds(cell: PublishedCell) -> int:
    """Returns the number of seeds behind a published number; 5 for the best of an unnamed number."""
    match = re.search(r"(\d+)_seeds", cell.aggregate)
    return int(match[1]) if match else 5 if cell.aggregate == "best_seed" else 1


def _seeds_remark(cell: PublishedCell, count: int) -> str:
    """Returns a remark if a number over seeds was recomputed from another number of seeds."""
    wanted = _printed_seeds(cell)
    of = {"best_seed": "the best"}.get(cell.aggregate, "the mean")
    return f"{of} of {counted_text(count, 'seed')}, printed of {wanted}" if wanted != count and wanted > 1 else ""


def _runs_of(paper: Paper, cell: PublishedCell, brought: Brought) -> tuple[str, ...]:
    """Returns the names of the runs behind a cell, scored or not: usually one, or one per seed."""
    for run in paper.runs:
        if (run.group, run.system) == (cell.group, cell.system):
            return (run.name,)
    row = brought.rows.get((cell.table, cell.group, cell.system))
    return () if row is None else row.runs()
