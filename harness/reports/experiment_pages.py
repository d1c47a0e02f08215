"""A page for each topic of an experiment: its text, its judgments, and the ranking of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.data.topics import Topics
from harness.data.trec import read_run
from harness.experiments.experiment import ALL, Labels, labels_text
from harness.experiments.results import ExperimentResults
from harness.experiments.task import Task
from harness.render.model import Prose, Section, TopicPages
from harness.reports.topics import explorer, readable, topic_pages
from harness.scoring.scores import Scores


def shown_run(results: ExperimentResults, row: Labels, part: str) -> tuple[Task, Scores, Path] | None:
    """Returns task, scores and file of a row's run on a set of topics: the first seed, or the chosen settings."""
    chosen = results.setting(row, part) if results.is_tuned(row) else None
    for outcome in results.of(row, part):
        if outcome.task is None or outcome.scores is None or outcome.run is None:
            continue
        if not outcome.cell.point or (chosen is not None and outcome.cell.point == chosen.name):
            return outcome.task, outcome.scores, outcome.run
    return None


def pages_of(
    results: ExperimentResults, part: str, rows: Sequence[Labels], topics: Topics | None = None
) -> TopicPages | None:
    """Returns the pages of one set of topics, for the rows that were scored on the same topics.

    Parameters
    ----------
    topics : topics whose text the pages show; default: those of the first run.
    """
    tasks, rankings = [], []
    scores: list[Scores] = []
    for row in rows:
        if (made := shown_run(results, row, part)) is None:
            continue
        task, scored, path = made
        if scores and scored.topics != scores[0].topics:
            continue
        tasks.append(task)
        scores.append(_mean_of_seeds(results, row, part, scored))
        rankings.append(task.scorer.rankings(read_run(path, known_topics=task.collection.known_topics())))
    if not tasks:
        return None
    collection = tasks[0].collection
    title = f"{results.experiment.title}, {part}" if part else results.experiment.title
    texts, name = topics or tasks[0].topics, part or collection.name
    return topic_pages(name, title, texts, tasks[0].scorer, scores, rankings, collection.link)


def _mean_of_seeds(results: ExperimentResults, row: Labels, part: str, first: Scores) -> Scores:
    """Returns the mean over a row's seeds under the row's name; for a single run its own scores."""
    mean = results.scores(row, part, partial=True)
    if mean is None or mean.topics != first.topics or mean.measures != first.measures:
        return replace(first, run=labels_text(row))
    return replace(first, run=labels_text(row), values=mean.values)


def seeds_note(results: ExperimentResults) -> tuple[str, ...]:
    """Returns the note on seeds for topic pages; nothing for single seeds."""
    counts = [len(results.seeds(row, part, partial=True)) for row in results.rows for part in results.sets]
    if max(counts, default=0) < 2:
        return ()
    return ("Scores of topics are means over seeds; rankings are those of the first seed.",)


def topic_pages_section(results: ExperimentResults) -> Section | None:
    """Returns the pages of the topics that the experiment names, all rows side by side, and names missing topics."""
    wanted = set(results.experiment.pages)
    if not wanted:
        return None
    made = [page for part in results.sets if (page := pages_of(results, part, results.rows)) is not None]
    there = {topic.id for page in made for topic in page.topics}
    lines = [*seeds_note(results)] if made else []
    lines += [f"Not a judged topic: {topic}." for topic in sorted(wanted - there - {ALL})]
    shown = {topic for topic in there if ALL in wanted or topic in wanted}
    kept = [replace(page, topics=tuple(topic for topic in page.topics if topic.id in shown)) for page in made]
    kept = [page for page in kept if page.topics]
    if not kept:
        return Section("Per-topic results", (Prose(tuple(lines)),)) if lines else None
    task = next(o.task for o in results.outcomes if o.task is not None and o.scores is not None)
    plan = results.experiment
    at = results.outcomes[0].cell.labels
    block = explorer(
        kept,
        baseline=labels_text(plan.row(plan.baseline_of(at))) if plan.baseline else "",
        corpus=readable(task.corpus),
        key=task.scorer.key,
        bare=task.scorer.protocol.deduplicate,
    )
    return Section("Per-topic results", (*([Prose(tuple(lines))] if lines else []), block))
