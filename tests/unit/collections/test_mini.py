"""The embedded mini collection as it is shipped: what its files say of each other agrees."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.collections.load import load_collection
from harness.data.trec import read_qrels, read_run
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io.files import data_root

Row = dict[str, Any]
Judgments = dict[str, dict[str, int]]

LANGUAGES = ("spa", "ces", "hrv", "pes")


IN_TEXT = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)


@dataclass(frozen=True)
class Mini:
    """Everything that the collection consists of: the rows of its files."""

    topics: list[Row]
    translations: dict[str, list[Row]]
    answers: list[Row]
    answer_grades: Judgments
    formula_topics: list[Row]
    formulas: list[Row]
    formula_grades: Judgments
    theorem_topics: list[Row]
    theorems: list[Row]
    theorem_labels: Judgments
    problems: list[Row]


def rows(path: str) -> list[Row]:
    return [json.loads(line) for line in (data_root() / path).read_text(encoding="utf-8").splitlines()]


def grades(path: str) -> Judgments:
    """By the reader that users have: it refuses a pair that stands twice and a grade that is no integer."""
    return read_qrels(data_root() / path).to_dict()


MINI = Mini(
    topics=rows("topics/mini-task1.eng.jsonl"),
    translations={language: rows(f"topics/mini-task1.{language}.jsonl") for language in LANGUAGES},
    answers=rows("corpora/mini-answers.jsonl"),
    answer_grades=grades("qrels/mini-task1.txt"),
    formula_topics=rows("topics/mini-task2.jsonl"),
    formulas=rows("corpora/mini-formulas.jsonl"),
    formula_grades=grades("qrels/mini-task2.txt"),
    theorem_topics=rows("topics/mini-theorems.jsonl"),
    theorems=rows("corpora/mini-theorems.jsonl"),
    theorem_labels=grades("qrels/mini-theorems.txt"),
    problems=rows("corpora/mini-problems.jsonl"),
)


def in_text(*texts: str) -> list[str]:
    """The LaTeX between dollar signs, in order."""
    return [display or inline for text in texts for display, inline in IN_TEXT.findall(text)]


def twice(values: Iterable[str]) -> list[str]:
    return [value for value, n in Counter(values).items() if n > 1]


def unique_ids(mini: Mini) -> Iterator[str]:
    files = (mini.topics, mini.answers, mini.formulas, mini.theorems, mini.problems, *mini.translations.values())
    for file in files:
        yield from twice(row["id"] for row in file)
    topics = (*mini.topics, *mini.formula_topics, *mini.theorem_topics)
    yield from twice(topic["id"] for topic in topics)
    yield from twice(formula["id"] for topic in topics for formula in topic["formulas"])
    yield from twice(formula["id"] for answer in mini.answers for formula in answer["formulas"])


def judged_exist(mini: Mini) -> Iterator[str]:
    for judgments, topics, documents in (
        (mini.answer_grades, mini.topics, {answer["id"] for answer in mini.answers}),
        (mini.formula_grades, mini.formula_topics, {formula["visual_id"] for formula in mini.formulas}),
        (mini.theorem_labels, mini.theorem_topics, {theorem["id"] for theorem in mini.theorems}),
    ):
        yield from (f"{topic}: judged or asked, but not both" for topic in judgments.keys() ^ {t["id"] for t in topics})
        for topic, judged in judgments.items():
            yield from (f"{topic}: no document {document}" for document in judged.keys() - documents)
    judged_answers = {answer for judged in mini.answer_grades.values() for answer in judged}
    yield from (f"{answer['id']} is judged nowhere" for answer in mini.answers if answer["id"] not in judged_answers)


def formulas_in_step(mini: Mini) -> Iterator[str]:
    translated = [topic for topics in mini.translations.values() for topic in topics]
    for row in (*mini.topics, *translated, *mini.theorem_topics, *mini.answers):
        if [formula["latex"] for formula in row["formulas"]] != in_text(row["title"], row["body"]):
            yield f"{row['id']}: the formulas are not those of the text"
    for topic in mini.formula_topics:  # these name the one formula that is searched for
        if len(topic["formulas"]) != 1 or in_text(topic["body"]).count(topic["formulas"][0]["latex"]) != 1:
            yield f"{topic['id']}: not one formula that stands once in the text"
    for row in (*mini.topics, *translated, *mini.formula_topics, *mini.theorem_topics, *mini.answers):
        if (row["title"] + row["body"]).count("$") % 2:
            yield f"{row['id']}: a dollar sign too many"


def translations(mini: Mini) -> Iterator[str]:
    english = {topic["id"]: topic for topic in mini.topics}
    first = [topic["id"] for topic in mini.translations[LANGUAGES[0]]]
    for language, topics in mini.translations.items():
        if [topic["id"] for topic in topics] != first:
            yield f"{language}: not the topics of {LANGUAGES[0]}"
        for topic in topics:
            name, original = f"{topic['id']} in {language}", english.get(topic["id"])
            if original is None:
                yield f"{name}: no such topic in English"
                continue
            if Counter(in_text(topic["title"], topic["body"])) != Counter(in_text(original["title"], original["body"])):
                yield f"{name}: other formulas than in English"
            if {f["id"]: f["latex"] for f in topic["formulas"]} != {f["id"]: f["latex"] for f in original["formulas"]}:
                yield f"{name}: other formula ids than in English"
            if topic["attributes"] != {**original["attributes"], "translation": "machine"}:
                yield f"{name}: other attributes than in English and translation=machine"
            if topic["language"] != language or topic["body"] == original["body"]:
                yield f"{name}: not translated"


Check = Callable[[Mini], Iterator[str]]
CHECKS: tuple[Check, ...] = (unique_ids, judged_exist, formulas_in_step, translations)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_collection_passes(check: Check) -> None:
    assert not list(check(MINI))


@pytest.mark.parametrize("collection", ["mini-task1", "mini-task2", "mini-theorems"])
def test_example_runs_are_what_their_systems_make(collection: str, tmp_path: Path) -> None:
    """The embedded runs are the first 50 results of the systems they are named after, line by line."""
    found = load_collection(collection)
    for name in ("shuffle", "overlap", "overlap-title"):
        shipped = data_root() / "runs" / "mini" / collection / f"{name}.run"
        made = make(name, task(found, found.corpus), runs=tmp_path).path
        wanted: dict[str, list[str]] = {}
        for line in made.read_text().splitlines():
            wanted.setdefault(line.split("\t")[0], []).append(line)
        assert shipped.read_text().splitlines() == [line for lines in wanted.values() for line in lines[:50]]
        scores = found.scorer()(read_run(shipped))
        assert scores.counts["topics answered"] == len(scores.topics) - len(scores.missing)
