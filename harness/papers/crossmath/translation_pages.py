"""Pages of topics with each step of their translation and the rankings of the retrievers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from harness.data.topics import Topics
from harness.experiments.experiment import Labels, labels_text
from harness.experiments.results import ExperimentResults
from harness.render.model import Prose, Section, TopicVersion, TransformationStep, Wording
from harness.reports.topics import explorer, language_tag_and_direction, pages_of, readable, shown_run
from harness.systems.crosslingual.authors import NAMES
from harness.systems.crosslingual.controls import Identity
from harness.systems.crosslingual.scripts import name_of
from harness.systems.crosslingual.system import CrossLingual
from harness.systems.crosslingual.translations import TranslatedTopic
from harness.systems.crosslingual.translators import Translator

MOST_RUNS = 30
MOST_TEXT = 2_500_000  # characters of all wordings of topics


@dataclass(frozen=True)
class TopicTranslation:
    """A translation of a collection's topics, with the rows of the experiment that searched for it.

    Attributes
    ----------
    labels, name : what tells it from the others, and that in one line.
    evaluated : the topics that have a score.
    """

    labels: Labels
    name: str
    collection: str
    system: CrossLingual
    topics: Topics
    found: Mapping[str, TranslatedTopic]
    rows: frozenset[Labels]
    evaluated: frozenset[str]

    @property
    def source(self) -> str:
        """The language of the topics (ISO 639-3)."""
        return next((topic.language for topic in self.topics), "")

    @property
    def translates(self) -> bool:
        """Whether a translator produced the text."""
        foreign = self.system.script is not None or self.source != self.system.target
        return isinstance(self.system.made, Translator) and foreign

    @property
    def how(self) -> str:
        """The translator or control, with its settings."""
        if not self.translates:
            return self.system.made.name
        masked = "formulas unmasked" if self.system.masking is None else "formulas masked"
        whose = f", the authors' function for {NAMES[self.system.script]}" if self.system.script else ""
        return f"{self.system.made.name}, {masked}{whose}"

    def restored(self, topic: str) -> str:
        """Title and body of the query."""
        translated = self.found[topic]
        return f"{translated.title.restored} {translated.body.restored}"


def translated_topics_section(
    results: ExperimentResults, translations: Sequence[TopicTranslation], topics: Topics | None
) -> Section | None:
    """Returns the explorer of an experiment's runs, with each step of the translations; names what exceeds its size.

    Parameters
    ----------
    topics : whose text a page begins with; default: those of the first run.
    """
    rows = _chosen(results, translations)
    pages = [page for part in results.sets if (page := pages_of(results, part, rows, topics)) is not None]
    if not pages:
        return None
    shown = {topic.id for page in pages for topic in page.topics}
    versions, unread = _versions([each for each in translations if each.rows & set(rows)], shown)
    all_versions = tuple(version for version, _ in versions)
    worded = [
        tuple(replace(topic, wordings=tuple(made.get(topic.id) for _, made in versions)) for topic in page.topics)
        for page in pages
    ]
    pages = [replace(page, topics=topics_, versions=all_versions) for page, topics_ in zip(pages, worded, strict=True)]
    there = {run for page in pages for run in page.runs}
    made = [row for row in results.rows if any(shown_run(results, row, part) for part in results.sets)]
    left = [labels_text(row) for row in made if labels_text(row) not in there]
    lines = [f"Not shown: {_first_names(left)}."] if left else []
    lines += [f"Shown without the texts of topics, to limit the file size: {_first_names(unread)}."] if unread else []
    lines += ["A report with fewer rows (only=...) shows them."] if lines else []
    task = next(o.task for o in results.outcomes if o.task is not None and o.scores is not None)
    at = results.of(rows[0], results.sets[0]) or results.outcomes
    plan = results.experiment
    block = explorer(
        pages,
        baseline=labels_text(plan.row(plan.baseline_of(at[0].cell.labels))) if plan.baseline else "",
        corpus=readable(task.corpus),
        key=task.scorer.key,
        bare=task.scorer.protocol.deduplicate,
    )
    return Section("Per-topic results", (*([Prose(tuple(lines))] if lines else []), block))


def _first_names(names: Sequence[str]) -> str:
    return f"{'; '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def _chosen(results: ExperimentResults, translations: Sequence[TopicTranslation]) -> list[Labels]:
    """Returns the rows that fit: one of each translation before a second of any."""
    groups: dict[object, list[Labels]] = {}
    for row in results.rows:
        used = tuple(index for index, each in enumerate(translations) if row in each.rows)
        if any(shown_run(results, row, part) for part in results.sets):
            groups.setdefault(used or row, []).append(row)
    order = [row for rank in zip_longest(*groups.values()) for row in rank if row is not None]
    return [row for row in results.rows if row in order[:MOST_RUNS]]


def _versions(
    translations: Sequence[TopicTranslation], shown: set[str]
) -> tuple[list[tuple[TopicVersion, dict[str, Wording]]], list[str]]:
    """Returns the translations that fit, with their topics, and the names of the others, controls first."""
    known: set[tuple[str, str]] = set()
    room = MOST_TEXT
    made: dict[int, tuple[TopicVersion, dict[str, Wording]]] = {}
    for at in sorted(range(len(translations)), key=lambda at: not translations[at].translates):
        each = translations[at]
        topics = {name: _wording_of(each, topic) for name, topic in each.found.items() if name in shown}
        texts = {texts for wording in topics.values() for texts in wording.texts} - known
        needed = sum(len(title) + len(body) for title, body in texts)
        if needed <= room:
            room -= needed
            known |= texts
            runs = tuple(map(labels_text, sorted(each.rows)))
            made[at] = (TopicVersion(each.name, _steps_of(each), runs, each.system.masking or ""), topics)
    return [made[at] for at in sorted(made)], [each.name for at, each in enumerate(translations) if at not in made]


def _steps_of(each: TopicTranslation) -> tuple[TransformationStep, ...]:
    """Returns the texts that a topic goes through in a translation, from the original to the query."""
    source, target = each.source, each.system.target
    original = TransformationStep(f"Original, {name_of(source)}", *language_tag_and_direction(source))
    if not each.translates:
        kept = source if isinstance(each.system.made, Identity) else target
        return (original, TransformationStep(f"Query: {each.system.made.name}", *language_tag_and_direction(kept)))
    masked = "" if each.system.masking is None else ", formulas masked"
    return (
        original,
        TransformationStep(f"Input of the translator{masked}", *language_tag_and_direction(source), literal=True),
        TransformationStep(f"Output of {each.system.made.name}", *language_tag_and_direction(target), literal=True),
        TransformationStep("Query: formulas restored" if masked else "Query", *language_tag_and_direction(target)),
    )


def _wording_of(each: TopicTranslation, topic: TranslatedTopic) -> Wording:
    """Returns a topic's texts at each step, with counts of what became of its formulas."""
    stages = ("original", "sent", "received", "restored") if each.translates else ("original", "restored")
    texts = tuple((getattr(topic.title, stage), getattr(topic.body, stage)) for stage in stages)
    if not each.translates:
        return Wording(texts)
    n = topic.total
    repaired = f", {n('repaired')} of them repaired" * (n("repaired") > 0)
    others = ("duplicated", "moved", "altered", "invented")
    facts = (
        ("formulas kept", f"{n('kept')} of {n('formulas')}{repaired}"),
        ("lost, and appended", f"{n('lost')}, {n('appended')}"),
        (", ".join(others), ", ".join(map(str, map(n, others)))),
        ("sentences untranslated", f"{n('untranslated')} of {n('sentences')}"),
    )
    return Wording(texts, facts)
