"""The report of a cross-lingual experiment: every number against a count by hand or another implementation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spoken_experiment as spoken

from harness.data.topics import Topic
from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition
from harness.experiments.results import POOLED, ExperimentResults, Outcome
from harness.experiments.task import Task, task
from harness.papers.crossmath import translation_pages, translations
from harness.render.model import Cell, Explorer, Prose, Section, Table
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResults:
    return spoken.results(tmp_path_factory.mktemp("spoken"))


def sections(results: ExperimentResults) -> dict[str, Section]:
    return {section.title: section for section in translations.translation_sections(results)}


def table(section: Section | None) -> Table:
    assert section is not None
    (found,) = (block for block in section.blocks if isinstance(block, Table))
    return found


def rows(found: Table) -> list[dict[str, Cell]]:
    return [dict(zip((c.full_title for c in found.columns), row, strict=True)) for row in found.rows]


def values(row: dict[str, Cell]) -> list[float | None]:
    return [cell.value for cell in row.values() if cell.value is not None]


def texts(section: Section) -> list[str]:
    return [line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs]


def explorer(section: Section) -> Explorer:
    (found,) = (block for block in section.blocks if isinstance(block, Explorer))
    return found


@pytest.mark.slow
def test_formulas_are_counted_in_all_topics_and_in_those_evaluated(results: ExperimentResults) -> None:
    (row,) = rows(table(sections(results)["Formula preservation"]))
    assert [cell.text for cell in row.values()][:3] == ["dictionary", "Foreign", "dictionary, formulas masked"]
    # M.1: three formulas, the second of its body lost; M.4: two, one lost; M.5: two, and its title has no word.
    counts = dict.fromkeys(("repaired", "duplicated", "moved", "altered", "invented"), 0)
    counts |= {"topics": 3, "formulas": 7, "kept": 5, "lost": 2, "appended": 2, "sentences": 6, "untranslated": 1}
    evaluated = {"topics": 2, "formulas": 5, "kept": 3}
    expected = {f"all topics / {name}": n for name, n in counts.items()}
    expected |= {f"those evaluated / {name}": n for name, n in evaluated.items()}
    assert {name: cell.value for name, cell in row.items() if cell.value is not None} == expected


def beside(name: str, words: dict[str, str], **more: None) -> Mapping[str, tuple[dict[str, Any], tuple[str, ...]]]:
    """The topics as they are, and those of a translator with these words."""
    system = spoken.system(name, spoken.dictionary(words), **more)
    return {"as they are": spoken.SYSTEMS["as they are"], name: (system, ("Foreign",))}


@pytest.mark.slow
def test_duplicated_moved_and_altered_formulas_are_counted(tmp_path: Path) -> None:
    made = beside("turned", {"QZ1": "QZ2", "QZ2": "QZ1 qz1"})
    topics = (Topic("M.1", "Uno", "Con $a$ y $b$", language="spa"), Topic("M.4", "Dos", "Un $a$", language="spa"))
    (row,) = rows(table(sections(spoken.results(tmp_path, topics, made))["Formula preservation"]))
    # M.1: both kept, in the other order; `qz1` beside `QZ1` is left as text.
    # M.4: its only placeholder became QZ2, and is repaired.
    named = ("topics", "formulas", "kept", "lost", "duplicated", "moved", "altered", "appended")
    assert [row[name].value for name in named] == [2, 3, 3, 0, 0, 1, 2, 0]
    assert not any(name.startswith("those evaluated") for name in row)  # they are all


@pytest.mark.slow
def test_repaired_formulas_are_counted_in_the_table_and_by_topic(tmp_path: Path) -> None:
    topics = (Topic("M.1", "Uno", "Con $a$ y $b$", language="spa"), Topic("M.4", "Dos", "Un día", language="spa"))
    found = sections(spoken.results(tmp_path, topics, beside("swapped", {"QZ1": "ZQ1"})))
    (row,) = rows(table(found["Formula preservation"]))
    assert [row[name].value for name in ("formulas", "kept", "repaired", "lost", "altered")] == [2, 2, 1, 0, 1]
    (pages,) = explorer(found["Per-topic results"]).collections
    facts = [dict(wording.facts).get("formulas kept") for wording in pages.topics[0].wordings if wording is not None]
    assert "2 of 2, 1 of them repaired" in facts


def test_unmasked_formulas_are_found_in_the_translation(tmp_path: Path) -> None:
    made = beside("bare", {"$n$": "$m$"}, masking=None)
    (row,) = rows(table(sections(spoken.results(tmp_path, systems=made))["Formula preservation"]))
    assert row["translator"].text == "dictionary, formulas unmasked"
    assert [row[f"all topics / {name}"].value for name in ("formulas", "kept", "lost", "appended")] == [7, 5, 2, 0]


@pytest.mark.slow
def test_quality_is_sacrebleus_and_formulas_are_counted_by_hand(results: ExperimentResults) -> None:
    metrics = pytest.importorskip("sacrebleu.metrics")
    found = table(sections(results)["Translation quality"])
    by_name = {row["condition"].text: row for row in rows(found)}
    assert list(by_name) == ["as they are", "formulas", "dictionary"]  # the reference itself is none of them
    english = ["Sum of ◇ odd numbers Let ◇ be odd. Show that ◇ is odd.", "A prime Is ◇ a prime, and ◇?", "◇ Prove ◇."]
    searched = {
        "as they are": [
            "Suma de ◇ impares Sea ◇ impar. Muestra que ◇ es impar.",
            "Un primo ¿Es ◇ un primo, y ◇?",
            "◇ Demuestra ◇ <script>alert(1)</script>",
        ],
        "formulas": ["◇ ◇ ◇", " ◇ ◇", "◇ ◇"],
        "dictionary": [
            "Sum of ◇ odd numbers Let ◇ odd. Show that  is odd. ◇",
            "A prime Is ◇ a prime, and  ? ◇",
            "◇ Prove ◇ <script>alert(1)</script>",
        ],
    }
    scores = {}
    for name, hypotheses in searched.items():
        chrf = metrics.CHRF()
        scores[name] = by_name[name]["chrF"].value or 0.0
        assert scores[name] == pytest.approx(chrf.corpus_score(hypotheses, [english]).score)
        assert f"by sacrebleu ({chrf.get_signature()})" in found.notes[0]
    assert scores["dictionary"] > scores["as they are"] > scores["formulas"]
    # English has n, n, n^2; 2, 3; x, x=1. Spanish lacks the 3, and a lost formula was appended.
    for row in by_name.values():
        assert row["formulas"].value == 7
        assert row["exact match"].value == pytest.approx(6 / 7)
        assert row["in English before"].value == 0


@pytest.mark.slow
def test_without_sacrebleu_the_column_says_how_to_get_it(
    results: ExperimentResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    found = table(translations.quality_section(translations.translations(results), translations.reference(results)))
    for row in rows(found):
        assert row["chrF"].value is None
        assert row["chrF"].note == "sacrebleu: pip install 'mathir-harness[translation]'"
        assert row["exact match"].value == pytest.approx(6 / 7)


@pytest.mark.slow
def test_topics_that_are_english_already_are_counted(tmp_path: Path) -> None:
    same = replace(spoken.ENGLISH[0], title="Suma de $n$ impares", language="spa")
    found = table(sections(spoken.results(tmp_path, (same, *spoken.SPANISH[1:])))["Translation quality"])
    assert [row["in English before"].value for row in rows(found)] == [1, 1, 1]


UNTRANSLATED = "Untranslated text in the authors' pipelines"


@pytest.mark.slow
def test_what_the_authors_rule_leaves(results: ExperimentResults) -> None:
    section = sections(results)[UNTRANSLATED]
    found = rows(table(section))
    named = [" ".join(cell.text for cell in list(row.values())[:3]) for row in found]
    assert named == ["first English NLLB", "first English mBART", "second Spanish NLLB", "second Spanish mBART"]
    # Sentences: M.1 has a title and two, M.4 a title and one, M.5 a title and one; its title is a formula, no word.
    for nllb, mbart in (found[:2], found[2:]):
        assert values(nllb) == pytest.approx([3, 7, 1, 1 / 7, 1, 0, 0, 0, 0, 0, 0])
        assert values(mbart) == pytest.approx([3, 6, 1, 1 / 6, 1, 0, 0, 0, 0, 0, 0])
    assert texts(section)[0].startswith(
        "The authors' functions leave text with words untranslated: for NLLB 0% (second) of the sentences, in 0 of 3 "
        "topics; for mBART 0% (second) of the titles and bodies, in 0 of 3 topics."
    )


@pytest.mark.slow
def test_text_left_with_words_is_counted_by_topic(tmp_path: Path) -> None:
    topics = (
        Topic("M.1", "Zanimiv problem", "$n$ es par. 3 es primo.  Quizá no.", language="spa"),
        Topic("M.4", "Fin", "$n$", language="spa"),
    )
    section = sections(spoken.results(tmp_path, topics))[UNTRANSLATED]
    nllb, mbart = rows(table(section))[2:]
    # Left: Zanimiv (letter), $n$ es par (formula), 3 es primo (digit), a blank before Quizá; and the formula of M.4.
    assert values(nllb) == pytest.approx([2, 6, 5, 5 / 6, 2, 1, 0, 1, 1, 4, 1])
    # As whole texts: Zanimiv problem (letter), the body after it and the formula of M.4.
    assert values(mbart) == pytest.approx([2, 4, 3, 3 / 4, 2, 0, 0, 0, 1, 2, 1])
    assert "for NLLB 67% (second) of the sentences, in 1 of 2 topics; for mBART 50% (second)" in texts(section)[0]


# ---- shares: by scores that are given

PROTOCOL = Protocol("p", ("AP",))
YEARS = {"old": ("1", "2", "3"), "new": ("4", "5", "6", "7")}
PLAN = Experiment(
    "t",
    {
        "person": Condition(("system=a",), {"language": ("English",)}),
        "machine": Condition(("system=b",), {"language": ("Czech", "Spanish")}),
    },
    ("AP",),
    axes={
        "language": {"English": ("collection=e",), "Czech": ("collection=c",), "Spanish": ("collection=s",)},
        "retriever": {"near": ("system.system=x",), "far": ("system.system=y",)},
        "year": {"old": ("edition=old",), "new": ("edition=new",)},
    },
    pool="year",
    baseline={"condition": "person", "language": "English"},
)
AP = {
    ("person", "English", "near"): ([0.5, 0.25, 0.75], [0.5, 0.5, 0.25, 1.0]),
    ("machine", "Czech", "near"): ([0.25, 0.25, 0.5], [0.5, 0.0, 0.25, 0.25]),
    ("machine", "Spanish", "near"): ([0.5, 0.25, 0.75], [0.5, 0.5, 0.25, 1.0]),
    ("person", "English", "far"): ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),
    ("machine", "Czech", "far"): ([1.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),
}


def scored(mini: Task, missing: tuple[str, ...] = ()) -> ExperimentResults:
    outcomes = []
    for cell in PLAN.cells():
        condition, language, retriever, year = cell.labels
        at = (condition, language, retriever)
        if at not in AP or year in missing:
            outcomes.append(Outcome(cell, {}, reason="broken"))
            continue
        column = np.array(AP[at][0 if year == "old" else 1])[:, None]
        scores = Scores("-".join(at), language, year, PROTOCOL, ("AP",), YEARS[year], column, year, "r")
        outcomes.append(Outcome(cell, {}, task=mini, scores=scores))
    return ExperimentResults("t", PLAN, tuple(outcomes))


@pytest.fixture(scope="module")
def mini() -> Task:
    return task("mini-task1")


def test_shares_are_ratios_of_means_over_all_topics_with_the_p_of_the_tests(mini: Task) -> None:
    results = scored(mini)
    section = translations.shares_section(results)
    assert section is not None
    near, far = (block for block in section.blocks if isinstance(block, Table))
    assert (near.id, near.caption) == ("shares-near", "Share of the baseline's MAP: near")
    assert [column.title for column in near.columns] == ["condition", "English", "Czech", "Spanish"]
    (_, own, *nothing), (_, blank, czech, spanish) = near.rows
    assert (own.text, own.marks, [cell.text for cell in nothing], blank.text) == ("1.000", ("baseline",), ["", ""], "")
    assert czech.values[0] == czech.value == pytest.approx(2.0 / 3.75)  # sums over seven topics
    (test,) = (t.result for t in results.tests if (t.row, t.part) == (("machine", "Czech", "near"), POOLED))
    assert czech.values[1] == test.p_bonferroni
    assert f"(p {test.p_bonferroni:.4f})" in czech.text
    assert spanish.value == 1.0
    assert spanish.values[1] == 1.0
    assert far.rows[1][2].value == pytest.approx(4.0 / 3.5)
    assert far.rows[1][3].marks == ("missing",)
    assert near.notes[0].startswith(
        "Means of MAP as shares of that of person, English, near, over 7 topics (all topics); "
    )


def test_no_shares_without_one_set_of_topics_or_a_baseline(mini: Task) -> None:
    results = scored(mini)
    assert translations.shares_section(replace(results, experiment=replace(PLAN, baseline=None))) is None
    assert translations.shares_section(scored(mini, missing=("new", "old"))) is None


# ---- pages of topics


@pytest.mark.slow
def test_pages_have_each_step_in_its_language_and_direction(results: ExperimentResults) -> None:
    block = explorer(sections(results)["Per-topic results"])
    (pages,) = block.collections
    assert block.pair[1] == "as they are, English"
    assert [page.id for page in pages.topics] == list(spoken.JUDGED)
    assert pages.topics[0].title == "Sum of $n$ odd numbers"  # the baseline's text
    versions = {version.name: at for at, version in enumerate(pages.versions)}
    names = ["as they are, English", "as they are, Foreign", "formulas, Foreign", "dictionary, Foreign"]
    assert list(versions) == names
    found = pages.versions[versions["dictionary, Foreign"]]
    assert (found.runs, found.placeholder) == (("dictionary, Foreign",), "QZ")
    assert [step.language for step in found.steps] == ["es", "es", "en", "en"]
    assert [step.literal for step in found.steps] == [False, True, True, False]
    assert {step.direction for step in found.steps} == {"ltr"}
    wording = pages.topics[0].wordings[versions["dictionary, Foreign"]]
    assert wording is not None
    assert wording.texts == (
        ("Suma de $n$ impares", "Sea $n$ impar. Muestra que $n^2$ es impar."),
        ("Suma de QZ1 impares", "Sea QZ1 impar. Muestra que QZ2 es impar."),
        ("Sum of QZ1 odd numbers", "Let QZ1 odd. Show that  is odd."),
        ("Sum of $n$ odd numbers", "Let $n$ odd. Show that  is odd. $n^2$"),
    )
    assert dict(wording.facts)["formulas kept"] == "2 of 3"
    assert dict(wording.facts)["lost, and appended"] == "1, 1"


def test_persian_is_written_from_the_right(tmp_path: Path) -> None:
    topics = (Topic("M.1", "جمع", "فرض کنید $n$", language="pes"), Topic("M.4", "عدد", "", language="pes"))
    (pages,) = explorer(sections(spoken.results(tmp_path, topics))["Per-topic results"]).collections
    steps = {version.name: [(s.language, s.direction) for s in version.steps] for version in pages.versions}
    assert steps["dictionary, Foreign"] == [("fa", "rtl"), ("fa", "rtl"), ("en", "ltr"), ("en", "ltr")]
    assert steps["as they are, Foreign"] == [("fa", "rtl"), ("fa", "rtl")]
    assert steps["formulas, Foreign"] == [("fa", "rtl"), ("en", "ltr")]


def test_what_has_no_room_is_named(results: ExperimentResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_pages, "MOST_RUNS", 3)
    monkeypatch.setattr(translation_pages, "MOST_TEXT", 130)
    section = sections(results)["Per-topic results"]
    (pages,) = explorer(section).collections
    assert pages.runs == ("as they are, English", "as they are, Foreign", "formulas, Foreign")
    said = texts(section)
    assert said[0] == "Not shown: dictionary, Foreign."
    shown = [version.name for version in pages.versions]
    named = said[1].removeprefix("Shown without the texts of topics, to limit the file size: ").rstrip(".").split("; ")
    assert sorted([*shown, *named]) == sorted(pages.runs)
    assert shown
    assert said[2] == "A report with fewer rows (only=...) shows them."
    long = sum(len(t) + len(b) for page in pages.topics for w in page.wordings if w for t, b in set(w.texts))
    assert long <= 130


def test_a_translation_that_cannot_be_had_again_is_named(
    results: ExperimentResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = []
    for outcome in results.outcomes:
        made = dict(outcome.system)
        if made["name"] == "dictionary":  # another translator than the store knows, and one that fails
            made["translator"] = spoken.dictionary({"Suma": "Total"}, crash="Sea")
        broken.append(replace(outcome, system=made))
    section = sections(replace(results, outcomes=tuple(broken)))["Formula preservation"]
    assert texts(section) == ["Not counted: dictionary, Foreign: translator dictionary: crashed at 'Sea'"]


@pytest.mark.slow
def test_one_translation_serves_all_rows_that_search_for_it(tmp_path: Path, conf: Callable[..., Path]) -> None:
    """Two retrievers, one of them within a fusion, ask for the same texts: they are counted once."""
    log = tmp_path / "asked.log"
    translator = spoken.dictionary(log=str(log))
    one = spoken.system("one", translator)
    two = spoken.system("two", translator, system="tfidf-ltn")
    for each in (one, two):
        conf("system", each["name"], json.dumps({"title": "x", **each}))
    fused = {"_target_": "harness.systems.fusion.system.Fusion", "name": "fused", "runs": ["one", "two"]}
    made = {"as they are": spoken.SYSTEMS["as they are"]}
    made |= {str(each["name"]): (dict(each), ("Foreign",)) for each in (one, two, fused)}
    results = spoken.results(tmp_path, systems=made)
    asked = log.read_text()
    found = translations.translations(results)
    assert log.read_text() == asked
    translated = [each for each in found.translations if each.translates]
    assert [each.rows for each in translated] == [{("one", "Foreign"), ("two", "Foreign"), ("fused", "Foreign")}]
    assert found.names == ("language",)  # the condition does not tell translations apart
    names = ["English", "Foreign (identity)", "Foreign (dictionary, formulas masked)"]
    assert [each.name for each in found.translations] == names
