"""The explorer of topics in a report, built from scores, rankings, judgments and topics.

A page for each topic of an experiment: its text, its judgments, and the ranking of each row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus, Document
from harness.data.topics import Topic, Topics
from harness.data.trec import read_run
from harness.experiments.experiment import ALL, Labels, labels_text
from harness.experiments.results import ExperimentResults
from harness.experiments.task import Task
from harness.render.model import Direction, Explorer, Prose, Section, Table, TopicPage, TopicPages
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Ranking, Scorer
from harness.scoring.scores import Scores
from harness.systems.crosslingual import scripts

LONGEST_TEXT = 4_000  # characters shown of a document
MOST_TEXT = 400_000  # characters shown of all documents
MOST_READ = 1 << 26  # bytes of the largest corpus that is read for texts


def own_corpus(collection: Collection) -> Corpus | None:
    """Returns the corpus that a collection names, if it is fetched and small enough to read its texts."""
    return readable(load_corpus(collection.corpus)) if collection.corpus else None


def readable(corpus: Corpus | None) -> Corpus | None:
    """Returns the corpus, if it is fetched and small enough to read its texts."""
    if corpus is None or corpus.state() != "here" or not all(path.exists() for path in corpus.paths):
        return None
    files = (file for path in corpus.paths for file in ([path] if path.is_file() else path.rglob("*")))
    return corpus if sum(file.stat().st_size for file in files) <= MOST_READ else None


def language_tag_and_direction(language: str) -> tuple[str, Direction]:
    """Returns the BCP 47 tag and the writing direction of a language (ISO 639-3).

    Examples
    --------
    >>> language_tag_and_direction("pes"), language_tag_and_direction("eng")
    (('fa', 'rtl'), ('en', 'ltr'))
    """
    return scripts.tag(language), "rtl" if language in scripts.RIGHT_TO_LEFT else "ltr"


def topic_pages(
    name: str,
    title: str,
    topics: Topics,
    scorer: Scorer,
    scores: Sequence[Scores],
    rankings: Sequence[Mapping[str, Ranking]],
    link: str = "",
) -> TopicPages:
    """Returns the topic pages of one collection; `scores` and `rankings` are of the same runs, in order.

    `link` : the address of a document, with `{id}` in place of its id.
    """
    first, known = scores[0], topics.by_id()
    judged: dict[str, dict[str, float]] = {topic: {} for topic in first.topics}
    qrels = scorer.qrels.judged()
    places = [judged[topic] for topic in qrels.topics]
    docs = map(bytes.decode, qrels.doc.tolist())
    for topic, doc, grade in zip(qrels.topic.tolist(), docs, qrels.grade.tolist(), strict=True):
        places[topic][doc] = grade
    protocol = scorer.protocol
    pages = []
    for index, topic in enumerate(first.topics):
        values = tuple(tuple(s.values[index].tolist()) for s in scores)
        ranked = [by_topic.get(topic, Ranking((), {}, {})) for by_topic in rankings]
        pages.append(_page(known.get(topic, Topic(topic, "")), judged[topic], protocol, values, ranked))
    edition = f"edition {first.edition}, protocol {protocol.name}"
    measures = tuple((measure, protocol.label(measure)) for measure in first.measures)
    runs = tuple(s.run for s in scores)
    languages = {topic.language for topic in topics}
    # English is the default language of topics and the language of reports.
    language: tuple[str, Direction] = (
        language_tag_and_direction(*languages) if len(languages) == 1 and "eng" not in languages else ("", "auto")
    )
    return TopicPages(name, title, edition, measures, runs, protocol.relevant_from, tuple(pages), link, *language)


def _page(
    topic: Topic,
    judged: Mapping[str, float],
    protocol: Protocol,
    values: tuple[tuple[float, ...], ...],
    ranked: Sequence[Ranking],
) -> TopicPage:
    threshold = protocol.relevant_from
    relevant = sorted((doc for doc, grade in judged.items() if grade >= threshold), key=lambda d: (-judged[d], d))
    # If unjudged documents are removed before scoring, the scored documents differ from the first ones.
    removed = protocol.prime and not all(judged.keys() >= set(ranking.docs) for ranking in ranked)
    others = [doc for ranking in ranked for doc in (*ranking.docs, *(ranking.judged if removed else ()))]
    docs = tuple(dict.fromkeys((*relevant, *others)))
    place = {doc: index for index, doc in enumerate(docs)}
    counted = Counter(judged.values())
    return TopicPage(
        topic.id,
        topic.title,
        topic.body,
        topic.tags,
        tuple(topic.attributes.items()),
        docs,
        tuple(map(judged.get, docs)),
        len(relevant),
        tuple(sorted(counted.items(), reverse=True)),
        values,
        tuple(tuple(map(place.__getitem__, ranking.docs)) for ranking in ranked),
        tuple(tuple(map(ranking.ranks.get, relevant, repeat(0))) for ranking in ranked),
        tuple(tuple((place[doc], rank) for doc, rank in r.judged.items()) for r in ranked) if removed else (),
    )


def explorer(
    collections: Sequence[TopicPages],
    *,
    baseline: str = "",
    tables: Sequence[Table] = (),
    corpus: Iterable[Document] | None = None,
    key: Callable[[str], str] = str,
    bare: bool = False,
) -> Explorer:
    """Returns the explorer of one or several collections.

    Parameters
    ----------
    baseline : the run that others are compared with at first; default: the second best.
    corpus : where the texts of documents are looked up, in one pass; those that matter most come first if not all fit.
    key : what the judgments call a document of the corpus.
    bare : the documents are formulas, LaTeX without delimiters.
    """
    return Explorer(
        "explorer",
        tuple(collections),
        _pair(collections[0], baseline),
        tuple(tables),
        {} if corpus is None else _documents(collections, corpus, key, bare),
    )


def _pair(pages: TopicPages, baseline: str) -> tuple[str, str]:
    means = []
    for index, run in enumerate(pages.runs):
        values = [page.values[index][0] for page in pages.topics if not math.isnan(page.values[index][0])]
        means.append((-math.fsum(values) / max(1, len(values)), run))
    others = [run for _, run in sorted(means) if run != baseline]
    if baseline in pages.runs and others:
        return others[0], baseline
    return (others[0], others[1]) if len(others) > 1 else (pages.runs[0], "")


def _documents(
    collections: Sequence[TopicPages], corpus: Iterable[Document], key: Callable[[str], str], bare: bool
) -> dict[str, tuple[str, str]]:
    """Returns title and text of the shown documents within `MOST_TEXT`: relevant ones first, then by rank."""
    pages = [page for collection in collections for page in collection.topics]
    wanted = dict.fromkeys(doc for page in pages for doc in page.docs[: page.relevant])
    longest = max((len(ranking) for page in pages for ranking in page.firsts), default=0)
    for rank in range(longest):
        wanted |= {page.docs[r[rank]]: None for page in pages for r in page.firsts if rank < len(r)}
    texts: dict[str, tuple[str, str]] = {}
    for document in corpus:
        name = key(document.id)
        if name in wanted and name not in texts:
            body = f"${document.body}$" if bare and "$" not in document.body else document.body
            texts[name] = (_cut(document.title), _cut(body))
    kept: dict[str, tuple[str, str]] = {}
    room = MOST_TEXT
    for doc in wanted:
        if doc in texts:
            room -= len(texts[doc][0]) + len(texts[doc][1])
            if room < 0:
                break
            kept[doc] = texts[doc]
    return kept


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT].rstrip() + " …"


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
