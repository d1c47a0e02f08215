"""Pages of topics: text, judged documents and where runs put them, spread of scores, difficulty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.io.names import in_natural_order
from harness.labs.site.lab_page import Columns, decimal, lab_page, listing, neighbours, run_item, whole
from harness.labs.site.lab_view import FIRST, LabView, Placed
from harness.render import figures
from harness.render.model import Facts, Figure, Prose, Records
from harness.render.pages import Block, ExtraColumn, Facet, Folded, Head, Item, Link, Listing, PageSection, QuotedText
from harness.render.site_html import SitePage, json_document, json_number
from harness.reports.topics import language_tag_and_direction
from harness.scoring.difficulty import TopicDifficulty, topic_difficulty

MOST_TEXTS = 60_000  # characters of documents on one page
MOST_TEXT = 4_000  # characters of one document
MOST_SCORED = 200  # runs in the table of scores; files and pages of runs have the others
MOST_LISTED = 40  # documents that are not relevant and listed
MOST_CHOICES = 40  # values of a filter
TOP = 10  # ranks that count as the top


@dataclass(frozen=True)
class Difficult:
    """Difficulty of all topics: `place` is the rank from the hardest, from 1."""

    of: Mapping[str, TopicDifficulty]
    place: Mapping[str, int]


def difficulty(field: LabView) -> Difficult:
    """Returns the difficulty of the topics for the ranked runs by the main measure."""
    topics = topic_difficulty(field.values(field.main)[:, : field.ranked], field.topics)
    return Difficult({each.topic: each for each in topics}, {each.topic: at for at, each in enumerate(topics, 1)})


def topics_page(field: LabView, hard: Difficult) -> SitePage:
    """Returns the list of all topics, the hardest first."""
    label = field.label(field.main)
    values, quartiles = field.values(field.main), field.quartiles
    names = tuple(dict.fromkeys(name for topic in field.topics for name in field.known[topic].attributes))
    at = {topic: n for n, topic in enumerate(field.topics)}
    ordered = sorted(field.topics, key=lambda each: (hard.place.get(each, math.inf), each))
    best = {topic: _best_value(values[n, : field.ranked]) for topic, n in at.items()}
    relevant = dict.fromkeys(ordered, 0)
    for topic, placed in field.placed.items():
        relevant[topic] = sum(grade >= field.board.protocol.relevant_from for grade in placed.grades)

    def discrimination(topic: str) -> Item:
        return decimal(hard.of[topic].discrimination if topic in hard.of else None, 2)

    def attribute(name: str) -> tuple[str, Callable[[str], Item]]:
        return name, lambda topic: Item("; ".join(field.known[topic].values(name)))

    columns: Columns[str] = (
        ("topic", lambda topic: Item(topic, link=field.topic_paths[topic])),
        ("title", lambda topic: Item(field.title_of(topic), maths=True)),
        (Head("lower quartile", "number"), lambda topic: decimal(quartiles[at[topic], 0])),
        (
            Head("median", "number", about=f"Median {label} of the ranked runs"),
            lambda topic: decimal(quartiles[at[topic], 1]),
        ),
        (Head("upper quartile", "number"), lambda topic: decimal(quartiles[at[topic], 2])),
        (Head("best", "number"), lambda topic: decimal(best[topic])),
        (Head("relevant documents", "number"), lambda topic: whole(relevant[topic])),
        (
            Head("discrimination", "number", about="Correlation over runs with the mean of the other topics"),
            discrimination,
        ),
        *map(attribute, names),
    )
    rows = [
        (t, *map(json_number, quartiles[at[t]].tolist()), json_number(best[t]), float(relevant[t])) for t in ordered
    ]
    given = {name: [value for topic in field.topics for value in field.known[topic].values(name)] for name in names}
    chosen = {name: tuple(in_natural_order(kept)) for name, kept in given.items()}
    facets = tuple(Facet(name, name, kept) for name, kept in chosen.items() if 1 < len(kept) <= MOST_CHOICES)
    notes = (
        f"Quartiles and best: {label} of the {field.ranked} ranked runs. Discrimination: correlation, over runs, of "
        "the topic's values with the mean of the other topics; below 0, it prefers runs that are worse elsewhere.",
    )
    table = listing(
        "topics",
        "Topics, the hardest first",
        columns,
        ordered,
        search=True,
        filters=lambda topic: {name: field.known[topic].values(name) for name in names},
        facets=facets,
        notes=notes,
    )
    count = f"{len(field.topics)} topics, ordered by the mean {label} of the ranked runs, the hardest first."
    page = lab_page(field, "topics/index.html", "Topics", count, [PageSection("", (table,))])
    records = Records(("topic", "lower_quartile", "median", "upper_quartile", "best", "relevant"), tuple(rows))
    listed = [dict(zip(records.columns, row, strict=True)) for row in rows]
    data = json_document("site-topics", {"measure": field.main, "topics": listed})
    return SitePage(page, data, records)


def _best_value(values: Any) -> float:  # noqa: ANN401
    return math.nan if np.isnan(values).all() else float(np.nanmax(values))


def topic_page(field: LabView, at: int, hard: Difficult, texts: Mapping[str, tuple[str, str]]) -> SitePage:
    """Returns the page of a topic.

    Parameters
    ----------
    texts : document -> (title, text), as far as known.
    """
    topics = field.topics
    topic = topics[at]
    known, placed = field.known[topic], field.placed[topic]
    language, direction = language_tag_and_direction(known.language) if known.language != "eng" else ("", "auto")
    attributes = [(name, ", ".join(known.values(name))) for name in known.attributes]
    body = known.body if known.title else ""
    parts = [
        PageSection(
            "",
            (
                *tuple([QuotedText(body, language, direction)] if body else []),
                Facts(tuple(_topic_facts(field, at, attributes))),
            ),
        ),
        PageSection("Scores", tuple(_score_blocks(field, at, hard))),
        PageSection("First documents of the runs", (_firsts_listing(field, topic, placed),)),
        PageSection("Judged documents", tuple(_judged(field, topic, placed, texts))),
    ]
    headline = _headline_of(field, topic, hard)
    page = lab_page(
        field,
        field.topic_paths[topic].removeprefix(f"{field.base}/"),
        known.title or field.title_of(topic),
        headline,
        parts,
        "topics/index.html",
        steps=neighbours(lambda n: Link(topics[n], field.topic_paths[topics[n]]), len(topics), at),
        kicker=f"Topic {topic}",
    )
    return SitePage(page, _topic_json(field, at, placed, hard), _records(field, topic, placed))


def _headline_of(field: LabView, topic: str, hard: Difficult) -> str:
    stats, label = hard.of.get(topic), field.label(field.main)
    if stats is None:
        return ""
    place = hard.place[topic]
    return (
        f"{label} {stats.mean:.3f} on average over {stats.runs} runs; place {place} of {len(hard.place)} topics, the "
        "hardest first."
    )


def _topic_facts(field: LabView, at: int, attributes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    topics = field.topics
    topic = topics[at]
    placed = field.placed[topic]
    counts = {grade: placed.grades.count(grade) for grade in sorted(set(placed.grades), reverse=True)}
    judged = ", ".join(f"{count} with grade {grade:g}" for grade, count in counts.items())
    tags = ", ".join(field.known[topic].tags)
    facts = [("tags", tags), *attributes, ("judged documents", f"{len(placed.docs)}: {judged}")]
    return [(name, value) for name, value in facts if value]


def _score_blocks(field: LabView, at: int, hard: Difficult) -> Iterator[Block]:
    """Yields the spread of scores and the table of all runs."""
    topic, label = field.topics[at], field.label(field.main)
    values = field.values(field.main)[at]
    ranked = [float(value) for value in values[: field.ranked]]
    stats = hard.of.get(topic)
    if stats is not None:
        sd = "" if stats.sd is None else f", standard deviation {stats.sd:.3f}"
        signed = stats.discrimination is not None and f"{stats.discrimination:.2f}".replace("-", "−")
        worth = f" Its discrimination is {signed}." if signed else ""
        zeros = f"{stats.zeros} of {stats.runs} runs have 0" if stats.zeros else "no run has 0"
        yield Prose((f"{label} is between {stats.low:.3f} and {stats.high:.3f}{sd}; {zeros}.{worth}",))
    spread = figures.distribution([("ranked runs", ranked)], label, f"{label} of the ranked runs on topic {topic}")
    yield Figure("spread", f"{label} of the {field.ranked} ranked runs on this topic", spread)
    order = sorted(range(len(field.runs)), key=lambda n: (-_sort_value(values[n]), n))

    def score(measure: str) -> tuple[Head, Callable[[int], Item]]:
        return Head(field.label(measure), "number"), lambda n: decimal(field.values(measure)[at, n])

    def rank(n: int) -> Item:
        stats = field.runs[n].standing.rank
        return Item("–" if stats is None else str(stats), stats)

    columns: Columns[int] = (
        ("run", lambda n: run_item(field.runs[n])),
        *map(score, field.board.measures),
        (Head(f"mean {label}", "number"), lambda n: decimal(field.runs[n].standing.mean(field.main).value)),
        (Head("rank", "number"), rank),
    )
    shown = order[:MOST_SCORED]
    whole_field = len(shown) == len(order)
    which = f"all {len(order)}" if whole_field else f"the {len(shown)} best of {len(order):,}"
    notes = () if whole_field else ("The JSON file of this page has the scores of all runs.",)
    caption = f"Scores of {which} runs on this topic"
    table = listing("runs", caption, columns, shown, search="if long", notes=notes)
    yield table if len(shown) <= 12 else Folded(f"Scores of {which} runs", (table,))


def _sort_value(value: float) -> float:
    return -1.0 if math.isnan(value) else float(value)


def _level(grade: float, highest: float) -> int:
    """Returns the level of a grade for display: 0 for none, 3 for the highest, 1 and 2 between."""
    if grade <= 0 or highest <= 0:
        return 0
    return max(1, min(3, math.ceil(3 * grade / highest)))


def _firsts_listing(field: LabView, topic: str, placed: Placed) -> Listing:
    """Returns the grades of each run's first documents."""
    grade_of = dict(zip(placed.docs, placed.grades, strict=True))
    highest = max(placed.grades, default=0.0)
    values = field.values(field.main)[field.topics.index(topic)]

    def boxes(docs: Sequence[str]) -> Item:
        grades = tuple(
            (f"{grade_of[doc]:g}", _level(grade_of[doc], highest), f"{rank}: {doc}, grade {grade_of[doc]:g}")
            if doc in grade_of
            else ("?", -1, f"{rank}: {doc}, not judged")
            for rank, doc in enumerate(docs, 1)
        )
        best = sum(doc in grade_of and grade_of[doc] >= field.board.protocol.relevant_from for doc in docs)
        return Item("" if grades else "no answer", float(best), grades=grades)

    columns: Columns[int] = (
        ("run", lambda at: run_item(field.runs[at])),
        (f"grades of the first {FIRST}", lambda at: boxes(placed.firsts[at])),
        (Head(field.label(field.main), "number"), lambda at: decimal(values[at])),
    )
    count = len(placed.firsts)
    some = f" Only the first {count} runs of the leaderboard are shown." if len(field.runs) > count else ""
    notes = (f"In the order of the run, unjudged documents counted; ?: not judged.{some}",)
    caption = f"Grades of the first {FIRST} documents"
    return listing("firsts", caption, columns, range(count), search="if long", notes=notes)


def _judged(field: LabView, topic: str, placed: Placed, texts: Mapping[str, tuple[str, str]]) -> Iterator[Block]:
    """Yields relevant documents, the others in a closed part, and texts as far as known."""
    relevant = [n for n, grade in enumerate(placed.grades) if grade >= field.board.protocol.relevant_from]
    others = [n for n, grade in enumerate(placed.grades) if grade < field.board.protocol.relevant_from]
    if relevant:
        yield _documents(field, placed, relevant, "relevant", f"Relevant documents of topic {topic}")
    else:
        yield Prose(("No judged document is relevant.",))
    if others:
        hit = sorted(others, key=lambda n: (-np.count_nonzero(placed.ranks[n]), n))[:MOST_LISTED]
        more = f", of which the {MOST_LISTED} that most runs retrieved are listed" if len(hit) < len(others) else ""
        listing = _documents(field, placed, hit, "others", f"Judged documents of topic {topic} that are not relevant")
        yield Folded(f"{len(others)} judged documents that are not relevant{more}", (listing,))
    room = MOST_TEXTS
    passages = []
    for n in relevant:
        title, text = texts.get(placed.docs[n], ("", ""))
        shown = "\n\n".join(part for part in (title, text) if part)
        shown = shown if len(shown) <= MOST_TEXT else f"{shown[:MOST_TEXT].rstrip()} …"
        room -= len(shown)
        if shown and room >= 0:
            passages.append(QuotedText(shown, label=f"{placed.docs[n]}, grade {placed.grades[n]:g}"))
    if passages:
        yield Folded(f"Texts of {len(passages)} relevant documents", tuple(passages))


def _documents(field: LabView, placed: Placed, rows: list[int], name: str, caption: str) -> Listing:
    """Returns documents with the number of runs that found them, and a strip of their ranks."""
    runs = placed.ranks.shape[1]
    deepest = max(int(placed.ranks.max(initial=1)), 2)
    highest = max(placed.grades, default=0.0)
    link = field.task.collection.link
    ranks = {n: np.sort(placed.ranks[n][placed.ranks[n] > 0]) for n in rows}

    def document(n: int) -> Item:
        return Item(placed.docs[n], link=link.replace("{id}", placed.docs[n]) if link else "")

    def graded(n: int) -> Item:
        grade = placed.grades[n]
        return Item("", grade, grades=((f"{grade:g}", _level(grade, highest), f"grade {grade:g}"),))

    def median(n: int) -> Item:
        return Item(f"{np.median(ranks[n]):g}", float(np.median(ranks[n]))) if len(ranks[n]) else Item("–")

    columns: Columns[int] = (
        ("document", document),
        (Head("grade", "number"), graded),
        (Head(f"runs of {runs}", "number", about="Runs that retrieved it"), lambda n: whole(len(ranks[n]))),
        (Head(f"in the first {TOP}", "number"), lambda n: whole(int((ranks[n] <= TOP).sum()))),
        (Head("best rank", "number"), lambda n: whole(int(ranks[n][0])) if len(ranks[n]) else Item("–")),
        (Head("median rank", "number", about="Over the runs that retrieved it"), median),
        (
            Head("ranks", about=f"A tick for each run, from rank 1 to {deepest}, on a logarithmic scale"),
            lambda n: Item("", strip=tuple(math.log(each) / math.log(deepest) for each in ranks[n].tolist())),
        ),
    )
    names = tuple(run.name for run in field.runs[:runs])
    values = tuple(tuple(str(r) if r else "" for r in placed.ranks[rows, at].tolist()) for at in range(runs))
    notes = (f"Ranks: a tick for each run, from 1 at the left to {deepest:,} at the right, on a logarithmic scale.",)
    lookup = ExtraColumn("Ranks in", names, values)
    return listing(name, caption, columns, rows, search="if long", lookup=lookup, notes=notes)


def _topic_json(field: LabView, at: int, placed: Placed, hard: Difficult) -> dict[str, Any]:
    topics = field.topics
    topic = topics[at]
    known, stats = field.known[topic], hard.of.get(topic)
    shown = ("mean", "sd", "low", "high", "discrimination")
    return json_document(
        "site-topic",
        {
            "topic": topic,
            **{key: getattr(known, key) for key in ("title", "body", "language")},
            "tags": list(known.tags),
            "attributes": dict(known.attributes),
            "difficulty": stats and {key: getattr(stats, key) for key in shown},
            "scores": {
                run.name: {m: json_number(field.values(m)[at, n]) for m in field.board.measures}
                for n, run in enumerate(field.runs)
            },
            "runs": [run.name for run in field.runs[: placed.ranks.shape[1]]],
            "judged": [
                {"document": doc, "grade": grade, "ranks": ranks}
                for doc, grade, ranks in zip(placed.docs, placed.grades, placed.ranks.tolist(), strict=True)
            ],
        },
    )


def _records(field: LabView, topic: str, placed: Placed) -> Records:
    """Returns a row per judged document with a column per run: its rank, empty if not retrieved."""
    names = tuple(run.name for run in field.runs[: placed.ranks.shape[1]])
    rows = tuple(
        (topic, doc, grade, *(str(rank) if rank else None for rank in ranks))
        for doc, grade, ranks in zip(placed.docs, placed.grades, placed.ranks.tolist(), strict=True)
    )
    return Records(("topic", "document", "grade", *names), rows)
