"""A paper's numbers recomputed from its archived runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.topic_files import READERS
from harness.data.topics import Topics
from harness.data.trec import Run, read_run
from harness.errors import HarnessError, suggestion
from harness.io import checks
from harness.io.files import read_bytes
from harness.papers.cells import KINDS, Cell, Judgement, Verdict, judge
from harness.papers.paper import Archive, ArchivedRun, Paper, Translations
from harness.papers.translations import Translation, check_translation
from harness.scoring.scorer import Ranking, Scorer
from harness.scoring.scores import Scores
from harness.sources.fetch import fetch

if TYPE_CHECKING:
    from harness.papers.rerun import Agreement

Say = Callable[[str], None]
Spans = Mapping[str, tuple[float, float]]
Track = Callable[[Sequence["ArchivedRun"], str], Iterable["ArchivedRun"]]


@dataclass(frozen=True)
class Reproduction:
    """Everything recomputed for one paper.

    Attributes
    ----------
    scores : (collection of the paper, run name) -> scores under the paper's protocol.
    also : protocol -> the same under another protocol, on the same editions.
    bounds : (collection, run) -> measure -> lowest and highest mean over the orders of ties, where they differ.
    topics : collection of the paper -> its topics with attributes.
    translations : language -> what a check of its translated topics found.
    warnings : what readers of the run files reported.
    again : archived runs beside those made here; empty unless that was asked for.
    """

    paper: Paper
    verdicts: tuple[Verdict, ...]
    scores: Mapping[tuple[str, str], Scores]
    also: Mapping[str, Mapping[tuple[str, str], Scores]]
    bounds: Mapping[tuple[str, str], Spans]
    topics: Mapping[str, Topics]
    translations: tuple[Translation, ...]
    warnings: tuple[str, ...]
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    rankings: Mapping[tuple[str, str], Mapping[str, Ranking]] = field(default_factory=dict)
    again: tuple[Agreement, ...] = ()

    def count(self, verdict: Judgement) -> int:
        """How many cells got a verdict."""
        return sum(v.verdict == verdict for v in self.verdicts)

    @property
    def line(self) -> str:
        """The outcome in one line."""
        tables = [v for v in self.verdicts if v.cell.table[:1].isdigit()]
        exact = sum(v.verdict == "exact" for v in tables)
        parts = [f"{exact} of {len(tables)} table cells exact"] if tables else []
        rest = [v for v in self.verdicts if not v.cell.table[:1].isdigit()]
        if rest:
            parts.append(f"{sum(v.verdict == 'exact' for v in rest)} of {len(rest)} values of its text exact")
        said = {"needs": "need a resource"}
        parts += [f"{self.count(kind)} {said.get(kind, kind)}" for kind in KINDS[1:] if self.count(kind)]
        return f"{self.paper.key}: {', '.join(parts)}"


def in_silence(runs: Sequence[ArchivedRun], _: str) -> Iterable[ArchivedRun]:
    """Show no progress."""
    return runs


def reproduce(
    paper: Paper, say: Say = lambda _: None, track: Track = in_silence, *, rerun: bool = False
) -> Reproduction:
    """Recompute every cell that can be recomputed.

    Parameters
    ----------
    say : gets what is being done, a line at a time.
    track : goes through the runs and shows how far it is, as `console.track`.
    rerun : make archived runs again as well, if the paper's configuration says how.

    Raises
    ------
    HarnessError
        A file cannot be had or is not what its checksum says. Missing runs of papers without an archive are
        verdicts (`config.state`), not errors.
    """
    archive = paper.config.archive
    if archive is None or not paper.runs:
        return Reproduction(paper, tuple(_not_recomputed(paper, cell) for cell in paper.cells), {}, {}, {}, {}, (), ())
    settings = paper.config.rerun if rerun else None
    if settings is not None:
        from harness.papers.rerun import check, made_again

        check(settings)
    fetch(paper.files(), progress=say)
    collections = {key: load_collection(entry.collection) for key, entry in archive.collections.items()}
    editions = {key: entry.edition for key, entry in archive.collections.items()}
    topics = {key: collection.topics() for key, collection in collections.items()}
    scorers = {key: collection.scorer(editions[key], archive.protocol) for key, collection in collections.items()}
    others = {
        name: {key: collection.scorer(editions[key], name) for key, collection in collections.items()}
        for name in paper.config.also
    }
    scores: dict[tuple[str, str], Scores] = {}
    also: dict[str, dict[tuple[str, str], Scores]] = {name: {} for name in others}
    bounds: dict[tuple[str, str], Spans] = {}
    rankings: dict[tuple[str, str], dict[str, Ranking]] = {}
    warnings: list[str] = []
    remade: dict[tuple[str, str], Run] = {}
    for archived in track(paper.runs, f"{paper.key}: scoring runs"):
        key = (archived.collection, archived.name)
        path = local(archived.file)
        run = read_run(path, name=archived.name, known_topics=topics[archived.collection].ids())
        warnings += [str(warning) for warning in run.warnings]
        if settings is not None and archived.name in settings.runs:
            remade[key] = run
        scores[key] = scorers[archived.collection](run)
        rankings[key] = scorers[archived.collection].rankings(run)
        spans = scorers[archived.collection].tie_spans(run, scores[key])
        bounds |= {key: spans} if spans else {}
        for name, by_collection in others.items():
            also[name][key] = by_collection[archived.collection](run)
    verdicts = tuple(_verdict(paper, archive, cell, scores) for cell in paper.cells)
    checks = _check_translations(paper, scorers)
    again: tuple[Agreement, ...] = ()
    if settings is not None and paper.config.translations is not None:
        english = _topics(paper, paper.config.translations, paper.config.translations.english, "eng")
        again = made_again(settings, english, remade, scorers)
    return Reproduction(
        paper, verdicts, scores, also, bounds, topics, checks, tuple(warnings), scorers, rankings, again
    )


def _check_translations(paper: Paper, scorers: Mapping[str, Scorer]) -> tuple[Translation, ...]:
    entry = paper.config.translations
    if entry is None:
        return ()
    judged = {topic for scorer in scorers.values() for topic in scorer.qrels.topics}
    english = _topics(paper, entry, entry.english, "eng")
    return tuple(
        check_translation(code, language.title, _topics(paper, entry, language.path, code), english, judged)
        for code, language in entry.languages.items()
    )


def _topics(paper: Paper, entry: Translations, path: str, language: str) -> Topics:
    file = local(entry.file(path, paper.where))
    return READERS["crossmath-tsv"](read_bytes(file), str(file), language)


def _not_recomputed(paper: Paper, cell: Cell) -> Verdict:
    """Why a cell has no value: what its row lacks, if a command makes its run, else what the configuration says."""
    if paper.available is not None and (lacking := paper.available.lacks(cell)):
        return Verdict(cell, "needs", cause=lacking + _note(paper, cell))
    text = paper.config.states.get(cell.table) or paper.config.state
    if not text:
        raise HarnessError(f"{paper.where}: no run recomputes {cell.place}, and key 'state' does not say why")
    kind, why = checks.state(text, paper.where)
    return Verdict(cell, kind, cause=why + _note(paper, cell))


def _note(paper: Paper, cell: Cell) -> str:
    """What is odd about the paper's definition of the cell's measure, as the end of a cause."""
    note = paper.config.metric_notes.get(cell.metric)
    return f"; {note}" if note else ""


def _verdict(paper: Paper, archive: Archive, cell: Cell, scores: Mapping[tuple[str, str], Scores]) -> Verdict:
    name, collection, topic, cause = "", cell.collection, "", ""
    for entry in archive.identified:
        if all(getattr(cell, key) == value for key, value in entry.cell.items()):
            name, collection, topic, cause = entry.run, entry.collection, entry.topic, entry.cause
    if not name:
        name = next((r.name for r in paper.runs if (r.group, r.system) == (cell.group, cell.system)), "")
    measure = archive.measures.get(cell.metric)
    found = scores.get((collection, name))
    if found is None or measure is None:
        return _not_recomputed(paper, cell)
    if topic:
        if topic not in found.topics:
            raise HarnessError(f"{paper.where}: topic {topic!r} is not judged; {suggestion(topic, found.topics)}")
        value, n = float(found.column(measure)[found.topics.index(topic)]), 1
    else:
        value, n = found.mean(measure), found.n(measure)
    made = (name, found.collection, found.edition, found.protocol.name, measure, n, cause)
    return Verdict(cell, judge(cell.value, value), value, *made)
