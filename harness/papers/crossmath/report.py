"""What the report of CrossMath has beside that of other papers: the check of translated topics, and the re-run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.collections.files import local
from harness.data.topics import Topics
from harness.data.trec import Run
from harness.io.files import read_bytes
from harness.papers.crossmath.readers import TranslationComparison, check_translation, crossmath_tsv
from harness.papers.crossmath.rerun import RerunAgreement, agreement_section, check_rerun_model, rerun_archived
from harness.papers.paper import Paper
from harness.papers.paper_settings import Translations
from harness.papers.reproduce import PaperReproduction
from harness.render.model import Cell, Column, Prose, Section, Table
from harness.scoring.scorer import Scorer


def check_topics(paper: Paper, scorers: Mapping[str, Scorer]) -> tuple[TranslationComparison, ...]:
    """Compares the judged topics of each language with the English ones."""
    entry = paper.config.translations
    if entry is None:
        return ()
    judged = {topic for scorer in scorers.values() for topic in scorer.qrels.topics}
    english = _read_topics(paper, entry, entry.english, "eng")
    return tuple(
        check_translation(code, language.title, _read_topics(paper, entry, language.path, code), english, judged)
        for code, language in entry.languages.items()
    )


def _read_topics(paper: Paper, entry: Translations, path: str, language: str) -> Topics:
    file = local(entry.file(path, paper.where))
    return crossmath_tsv(read_bytes(file), str(file), language)


def check_rerun(paper: Paper) -> None:
    """Raises HarnessError if the model of the re-run is missing."""
    if paper.config.rerun is not None:
        check_rerun_model(paper.config.rerun)


def rerun(paper: Paper, runs: Mapping[tuple[str, str], Run], scorers: Mapping[str, Scorer]) -> Sequence[RerunAgreement]:
    """Returns the agreement of archived runs, by collection and name, with runs of the English topics."""
    settings, entry = paper.config.rerun, paper.config.translations
    if settings is None or entry is None:
        return ()
    return rerun_archived(settings, _read_topics(paper, entry, entry.english, "eng"), runs, scorers)


def rerun_section(reproduction: PaperReproduction) -> Section | None:
    """Returns the section on the re-run; None without runs."""
    settings = reproduction.paper.config.rerun
    if settings is None or not reproduction.scores:
        return None
    return agreement_section(reproduction.paper.key, settings, reproduction.again)


def table_notes(reproduction: PaperReproduction, groups: Collection[str]) -> list[str]:
    """Returns the faults of the topics of the languages that a table has as groups."""
    return [_note(reproduction, t) for t in reproduction.checked if t.language in groups and t.english_bodies]


def run_notes(reproduction: PaperReproduction) -> dict[str, str]:
    """Returns run -> the fault of the topics it was made from."""
    return {
        run.name: _note(reproduction, translation)
        for translation in reproduction.checked
        for run in reproduction.paper.runs
        if translation.english_bodies and run.group == translation.language
    }


def _note(reproduction: PaperReproduction, translation: TranslationComparison) -> str:
    """Returns a sentence on topics of a translation that have the English body."""
    english = set(translation.english_bodies)
    topics = {collection: scores.topics for (collection, _), scores in reproduction.scores.items()}
    parts = ", ".join(f"{c}: {len(english & set(judged))} of {len(judged)}" for c, judged in topics.items())
    return (
        f"{len(english)} of the {len(translation.checked)} {translation.title} topics in the archive have the English "
        f"body ({parts}): at most their title was translated, so this compares largely English with English."
    )


def sections(reproduction: PaperReproduction) -> Sequence[Section]:
    """Returns the check of the translated topics."""
    if not reproduction.checked:
        return []
    rows = []
    for t in reproduction.checked:
        topics = (len(t.checked), len(t.missing), len(t.english_bodies))
        numbers = (*topics, t.formulas, t.lost, t.changed, t.added, len(t.damaged))
        rows.append((Cell(f"{t.title} ({t.language})"), *(Cell(str(number), number) for number in numbers)))
    of_topics = (Column(name, kind="number") for name in ("judged topics", "topics missing", "bodies in English"))
    of_formulas = (Column(name, "formulas", "number") for name in ("in English", "lost", "changed", "added"))
    columns = (Column("language"), *of_topics, *of_formulas, Column("topics with other formulas", kind="number"))
    lines = [_note(reproduction, t) for t in reproduction.checked if t.english_bodies]
    if lines:
        lines += [
            "For these languages, a claim of no significant difference from English says little about translation."
        ]
    text = (
        "The translated topics of the runs are compared with the English ones: a body counts as English if its letters "
        "and digits outside formulas equal those of the English body; formulas are compared without blanks and order.",
        *lines,
    )
    table = Table("translations", "Translated topics", columns, tuple(rows))
    return [Section("Check of translated topics", (Prose(text), table))]
