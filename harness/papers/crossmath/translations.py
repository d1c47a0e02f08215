"""Sections of cross-lingual experiments: translation quality, formula preservation, untranslated text.

An experiment names it under its key `sections`.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.data.topics import Topics
from harness.errors import HarnessError
from harness.experiments.experiment import CONDITION, Labels, labels_text
from harness.experiments.results import POOLED, ExperimentResults, Outcome
from harness.formulas.text.delimiters import split_formulas
from harness.papers.crossmath.readers import check_translation
from harness.papers.crossmath.translation_pages import TopicTranslation, translated_topics_section
from harness.render.model import Cell, Column, Prose, Section, Table, number_cell, slug
from harness.reports.pair_tests import shown_p, test_marks
from harness.scoring.scores import Scores
from harness.systems import states
from harness.systems.build import build_system
from harness.systems.crosslingual.authors import NAMES, SCRIPTS, Script, untranslated
from harness.systems.crosslingual.scripts import name_of
from harness.systems.crosslingual.seq2seq import INSTALL
from harness.systems.crosslingual.system import COUNTS, CrossLingual

SIGN = "◇"  # replaces each formula in comparisons of prose
_CLASS = f"{CrossLingual.__module__}.{CrossLingual.__qualname__}"


def translation_sections(results: ExperimentResults) -> Sequence[Section]:
    """Returns the sections: share of the English score, quality, formulas, untranslated text, per-topic results."""
    all_translations = translations(results)
    english = reference(results)
    parts = (
        shares_section(results),
        quality_section(all_translations, english),
        formulas_section(all_translations),
        untranslated_section(all_translations),
        translated_topics_section(results, all_translations.translations, None if english is None else english.topics),
    )
    return [section for section in parts if section is not None]


# ---- translations of an experiment ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExperimentTranslations:
    """Translations of an experiment.

    Attributes
    ----------
    names : the coordinates whose labels tell them apart.
    faults : what could not be had again, a line each.
    """

    names: Labels
    translations: tuple[TopicTranslation, ...]
    faults: tuple[str, ...] = ()


def translations(results: ExperimentResults) -> ExperimentTranslations:
    """Returns each distinct translation behind a run, from the store; a deleted one is recomputed."""
    used: dict[str, list[tuple[Outcome, Mapping[str, object]]]] = {}
    for outcome in results.outcomes:
        for part in states.nested_configurations(outcome.system) if outcome.scores is not None else ():
            if part.get("_target_") == _CLASS and outcome.task is not None:
                decides = [part.get(key) for key in ("translator", "masking", "pipeline", "target")]
                used.setdefault(repr((outcome.task.collection.name, decides)), []).append((outcome, part))
    rows = [[results.experiment.row(outcome.cell.labels) for outcome, _ in pairs] for pairs in used.values()]
    names, labels = _distinguishing(rows, _compared_coordinates(results))
    made, faults = [], []
    for named, pairs, of in zip(labels, used.values(), rows, strict=True):
        try:
            made.append(_translation(named, pairs, of))
        except HarnessError as error:
            faults.append(f"{labels_text(named)}: {error.lines[0]}")
    return ExperimentTranslations(names, _with_unique_names(made), tuple(dict.fromkeys(faults)))


def _translation(
    labels: Labels, pairs: Sequence[tuple[Outcome, Mapping[str, object]]], rows: Iterable[Labels]
) -> TopicTranslation:
    outcome, part = pairs[0]
    system = build_system(part, "report: system").system
    if not isinstance(system, CrossLingual) or outcome.task is None or outcome.run is None:
        raise HarnessError(f"{_CLASS} made {system!r:.60}")
    topics = outcome.task.topics
    evaluated = frozenset(t for each, _ in pairs if each.scores is not None for t in _evaluated(each.scores))
    translated = system.translated(topics)
    name = outcome.task.collection.name
    return TopicTranslation(labels, labels_text(labels), name, system, topics, translated, frozenset(rows), evaluated)


def _evaluated(scores: Scores) -> list[str]:
    """Returns the topics behind the first measure."""
    values = scores.column(scores.measures[0]).tolist()
    return [topic for topic, value in zip(scores.topics, values, strict=True) if not math.isnan(value)]


def _compared_coordinates(results: ExperimentResults) -> Labels:
    return tuple(name for name in results.experiment.coordinates if name != results.experiment.pool)


def _distinguishing(groups: Sequence[Sequence[Labels]], names: Labels) -> tuple[Labels, list[Labels]]:
    """Returns the coordinates whose labels differ between groups but not within one, and each group's labels there."""
    of = [[{row[at] for row in rows} for rows in groups] for at in range(len(names))]
    single = [at for at, sets in enumerate(of) if all(len(labels) == 1 for labels in sets)]
    telling = [at for at in single if len(set.union(*of[at])) > 1] if groups else []
    kept = telling or single
    return tuple(names[at] for at in kept), [tuple(rows[0][at] for at in kept) for rows in groups]


def _with_unique_names(made: Sequence[TopicTranslation]) -> tuple[TopicTranslation, ...]:
    """Returns the names of groups; equal names get their translators appended."""
    names = [each.name for each in made]
    twice = {name for name in names if names.count(name) > 1}
    return tuple(replace(e, name=f"{e.name} ({e.how})".lstrip()) if e.name in twice else e for e in made)


@dataclass(frozen=True)
class TranslatedTopics:
    """Topics that were translated from or into."""

    collection: str
    topics: Topics

    @property
    def language(self) -> str:
        """The language of the first topic (ISO 639-3)."""
        return next((topic.language for topic in self.topics), "")


def reference(results: ExperimentResults) -> TranslatedTopics | None:
    """Returns the baseline's topics, the references for translations into their language; None without a baseline."""
    for outcome in results.outcomes if results.experiment.baseline else ():
        labels = outcome.cell.labels
        if outcome.task is not None and results.experiment.baseline_of(labels) == labels:
            return TranslatedTopics(outcome.task.collection.name, outcome.task.topics)
    return None


# ---- shares of the baseline's score -----------------------------------------------------------------------------


def shares_section(results: ExperimentResults) -> Section | None:
    """Returns scores as shares of the baseline's: a row a condition, a column a label of the baseline's axis.

    A table for each label of the other axes, such as retrievers. None where the baseline fixes none or two axes.
    """
    plan = results.experiment
    fixed = [name for name in plan.baseline or {} if name != CONDITION]
    parts = [POOLED] if POOLED in results.parts else list(results.sets)
    if len(fixed) != 1 or len(parts) != 1 or not results.tests:
        return None
    names, part, measure = _compared_coordinates(results), parts[0], plan.of_tests[0]
    across = names.index(fixed[0])
    tests = {test.row: test.result for test in results.tests if (test.part, test.result.measure) == (part, measure)}
    others = [at for at in range(len(names)) if at not in (names.index(CONDITION), across)]
    columns = [label for label in plan.labels(fixed[0]) if any(row[across] == label for row in results.rows)]
    tables = []
    for with_ in dict.fromkeys(tuple(row[at] for at in others) for row in results.rows):
        rows = [row for row in results.rows if tuple(row[at] for at in others) == with_]
        lines, against = [], set()
        for condition in dict.fromkeys(row[names.index(CONDITION)] for row in rows):
            cells = [Cell(condition)]
            for label in columns:
                there = [row for row in rows if (row[names.index(CONDITION)], row[across]) == (condition, label)]
                if not there:
                    cells.append(Cell(""))
                    continue
                (row,) = there
                base = plan.row(plan.baseline_of(results.of(row, POOLED)[0].cell.labels))
                against.add(base)
                mine, theirs = (results.scores(side, part) for side in (row, base))
                if mine is None or theirs is None:
                    cells.append(Cell("", marks=("missing",)))
                    continue
                share = mine.aggregate(measure) / theirs.aggregate(measure) if theirs.aggregate(measure) else math.nan
                test = tests.get(row)
                cell = number_cell(share, 3, ("baseline",) if row == base else test_marks(test))
                p = math.nan if test is None or test.p_bonferroni is None else test.p_bonferroni
                shown = f"{cell.text} (p {shown_p(test.p_bonferroni).text})" if test else cell.text
                cells.append(replace(cell, text=shown, values=(share, p)))
            lines.append(tuple(cells))
        known = next(scores for row in rows if (scores := results.scores(row, part)) is not None)
        label = known.protocol.label(measure)
        notes = (
            f"Means of {label} as shares of that of {' and of '.join(map(labels_text, sorted(against)))}, over "
            f"{known.n(measure)} topics{f' ({part})' if part else ''}; p of the differences after Bonferroni's "
            f"correction, as under Significance tests.",
        )
        caption = f"Share of the baseline's {label}{f': {labels_text(with_)}' if with_ else ''}"
        heads = (Column(CONDITION), *(Column(name, fixed[0], "number", ("share", "p")) for name in columns))
        tables.append(Table(slug(f"shares {labels_text(with_)}"), caption, heads, tuple(lines), notes))
    return Section("Share of the baseline's score", tuple(tables))


# ---- quality ----------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """Returns a text with each formula replaced by one character.

    Examples
    --------
    >>> prose("Let $p$ be a prime.")
    'Let ◇ be a prime.'
    """
    return SIGN.join(words for words, _ in split_formulas(text))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str] | None:
    """Computes chrF of a corpus (0 to 100) and sacrebleu's signature; None if sacrebleu is not installed."""
    if importlib.util.find_spec("sacrebleu") is None:
        return None
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score), str(metric.get_signature())


def quality_section(experiment: ExperimentTranslations, english: TranslatedTopics | None) -> Section | None:
    """Returns the quality of translations against the baseline's topics, controls included as a floor."""
    if english is None:
        return None
    there = english.topics.by_id()
    rows, signatures = [], dict[str, None]()
    for each in experiment.translations:
        ids = [topic.id for topic in each.topics if topic.id in there]
        pairs = [(each.restored(topic), f"{there[topic].title} {there[topic].body}") for topic in ids]
        if each.system.target != english.language or not ids or all(a == b for a, b in pairs):
            continue
        score = chrf([prose(a) for a, _ in pairs], [prose(b) for _, b in pairs])
        ours = ((topic, each.found[topic]) for topic in ids)
        restored = Topics(tuple(replace(there[t], title=o.title.restored, body=o.body.restored) for t, o in ours))
        check = check_translation(english.language, "", restored, english.topics, ids)
        before = check_translation(english.language, "", each.topics, english.topics, ids)
        exact = check.formulas - check.lost - check.changed
        if score is not None:
            signatures[score[1]] = None
        chrf_cell = number_cell(score[0], 1) if score else Cell("", marks=("needs",), note=f"sacrebleu: {INSTALL}")
        match = number_cell(exact / check.formulas if check.formulas else math.nan, 3)
        counts = [Cell(f"{n:,}", n) for n in (len(ids), check.formulas, len(before.english_bodies))]
        rows.append((*map(Cell, (*each.labels, each.how)), counts[0], chrf_cell, counts[1], match, counts[2]))
    if not rows:
        return None
    columns = (
        *map(Column, experiment.names),
        Column("translator"),
        *(Column(name, kind="number") for name in ("topics", "chrF", "formulas", "exact match", "in English before")),
    )
    scored = f" ({', '.join(signatures)})" if signatures else ""
    notes = (
        f"chrF: of all topics, by sacrebleu{scored}; title and body of the query against those of "
        f"{english.collection}, with {SIGN} for each formula in both, so that a formula counts as one sign.",
        f"exact match: share of the formulas of {english.collection} that occur in the query as often as there, equal "
        "except for blanks; formulas missing before translation count as missing.",
        "in English before: topics whose body before translation has the same words as the English one.",
        "Rows without a translator show the values without translation.",
    )
    caption = f"Translations compared with the topics in {name_of(english.language)}"
    heads = len(experiment.names) + 1
    table = Table("translation-quality", caption, columns, tuple(rows), notes, heads)
    return Section("Translation quality", (table,))


# ---- formula integrity ------------------------------------------------------------------------------------------


def formulas_section(experiment: ExperimentTranslations) -> Section | None:
    """Returns the numbers of kept, lost and changed formulas and sentences of each translation."""
    there = [each for each in experiment.translations if each.translates]
    faults = (Prose(tuple(f"Not counted: {line}" for line in experiment.faults)),) if experiment.faults else ()
    if not there:
        return Section("Formula preservation", faults) if faults else None
    part = any(each.evaluated < each.topics.ids() for each in there)
    rows = []
    for each in there:
        counts = [sum(topic.total(count) for topic in each.found.values()) for count in COUNTS]
        judged = [topic for topic in each.found.values() if topic.id in each.evaluated]
        of_them = [len(judged), *(sum(topic.total(count) for topic in judged) for count in ("formulas", "kept"))]
        numbers = [len(each.found), *counts, *(of_them if part else [])]
        rows.append((*map(Cell, each.labels), Cell(each.how), *(Cell(f"{number:,}", number) for number in numbers)))
    columns = [*map(Column, experiment.names), Column("translator")]
    columns += [Column(name, "all topics" if part else "", "number") for name in ("topics", *COUNTS)]
    columns += [Column(name, "those evaluated", "number") for name in ("topics", "formulas", "kept")] if part else []
    notes = (
        "kept, lost: formulas returned unchanged by the translator, or not; repaired: kept formulas whose placeholder "
        "came back in another spelling or script; duplicated: occurrences beyond a formula's first; moved: the minimal "
        "number of formulas out of order; altered: placeholders in another spelling or script, recognised or not; "
        "invented: placeholders without a formula, removed; appended: lost formulas appended at the end, both with "
        "masking only.",
        "untranslated: sentences not given to the translator because they have no word, or by the authors' rule; whole "
        "texts in the authors' function for mBART.",
        *(("All topics of a collection are translated; those evaluated count for the first measure.",) * part),
    )
    table = Table("integrity", "Formulas in translation", tuple(columns), tuple(rows), notes, len(experiment.names) + 1)
    return Section("Formula preservation", (table, *faults))


# ---- the authors' rule ------------------------------------------------------------------------------------------

_REASONS = ("formula", "digit", "mark", "blank", "letter")
_UNITS: Mapping[Script, str] = {"nllb": "sentences", "mbart": "titles and bodies"}


def untranslated_section(experiment: ExperimentTranslations) -> Section | None:
    """Returns the text that CrossMath's two translation functions leave untranslated, on the topics of the runs."""
    collections: dict[str, TopicTranslation] = {}
    for each in experiment.translations:
        collections.setdefault(each.collection, each)
    rows: list[tuple[Cell, ...]] = []
    shares: dict[Script, list[_Share]] = {script: [] for script in SCRIPTS}
    for each in collections.values():
        language = name_of(next((topic.language for topic in each.topics), ""))
        foreign = any(topic.language != each.system.target for topic in each.topics)
        for script in SCRIPTS:
            parts = [untranslated([topic.title, topic.body], script) for topic in each.topics]
            sums = {name: sum(getattr(part, name) for part in parts) for name in ("units", "left", "words", *_REASONS)}
            hit = sum(part.words > 0 for part in parts)
            share = sums["left"] / sums["units"] if sums["units"] else math.nan
            numbers = (len(parts), sums["units"], sums["left"])
            more = (*(sums[name] for name in _REASONS), sums["words"], hit)
            cells = map(Cell, (each.collection, language, NAMES[script]))
            counted = (Cell(f"{number:,}", number) for number in numbers)
            rows.append((*cells, *counted, number_cell(share, 3), *(Cell(f"{number:,}", number) for number in more)))
            if sums["units"] and foreign:
                shares[script].append(_Share(sums["words"] / sums["units"], each.collection, hit, len(parts)))
    if not rows:
        return None
    columns = [Column(name) for name in ("topics of", "language", "function for")]
    columns += [Column(name, kind="number") for name in ("topics", "units", "left", "share")]
    columns += [Column(name, "left, begin with", "number") for name in _REASONS]
    columns += [Column(name, "with words", "number") for name in ("units", "topics")]
    notes = (
        "CrossMath's authors use two translation functions. Both mask formulas and return a unit untranslated if it "
        "then begins with a placeholder (a formula), a digit, a blank, one of . , ! ? or a letter of the placeholders' "
        "prefix. A unit is a sentence for NLLB (texts are split after . ! ? and a blank), a whole title or body for "
        "mBART. These counts need no translator.",
        "with words: untranslated units that contain a word to translate, and topics with such a unit.",
    )
    caption = "Text left untranslated by the authors' functions"
    table = Table("authors-rule", caption, tuple(columns), tuple(rows), notes, 3)
    return Section("Untranslated text in the authors' pipelines", (*_summary(shares), table))


class _Share(NamedTuple):
    """Returns the share of units with untranslated words, its collection, and the number of topics with such a unit."""

    share: float
    collection: str
    hit: int
    topics: int


def _summary(shares: Mapping[Script, Sequence[_Share]]) -> tuple[Prose, ...]:
    """Returns what the counts mean for claims about the two translators."""
    told = []
    for script, measured in shares.items():
        if measured:
            low, high = min(measured), max(measured)
            span = f"{low.share:.0%} ({low.collection})" + f" to {high.share:.0%} ({high.collection})" * (high != low)
            by_hits = sorted(measured, key=lambda each: each.hit)
            few, many = (f"{each.hit} of {each.topics}" for each in (by_hits[0], by_hits[-1]))
            topics = few + f" to {many}" * (few != many)
            told.append(f"for {NAMES[script]} {span} of the {_UNITS[script]}, in {topics} topics")
    if not told:
        return ()
    line = (
        f"The authors' functions leave text with words untranslated: {'; '.join(told)}. A comparison of the two "
        "translators in these pipelines compares these rules as well."
    )
    return (Prose((line,)),)
