"""The embedded mini collection as it is shipped: every check is also shown to fail on a copy that was broken for it."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from latex2mathml.converter import convert

from harness.collections.load import load_collection
from harness.data.trec import read_qrels, read_run
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io.files import data_root

Row = dict[str, Any]
Judgments = dict[str, dict[str, int]]

LANGUAGES = ("spa", "ces", "hrv", "pes")
AREAS = {
    "algebra", "analysis", "number theory", "combinatorics", "geometry", "probability", "linear algebra", "logic",
}  # fmt: skip
FORMS = {"natural description", "LaTeX", "theorem name", "Lean term"}
IN_TEXT = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
CHILDREN = {"mfrac": 2, "msup": 2, "msub": 2, "munder": 2, "mover": 2, "mroot": 2, "msubsup": 3, "munderover": 3}
LEAVES = {"mi", "mn", "mo", "mtext"}


@dataclass(frozen=True)
class Mini:
    """Everything that the collection consists of: the rows of its files."""

    topics: list[Row]
    translations: dict[str, list[Row]]
    answers: list[Row]
    answer_grades: Judgments
    notes: list[list[str]]
    formula_topics: list[Row]
    formulas: list[Row]
    formula_grades: Judgments
    theorem_topics: list[Row]
    theorems: list[Row]
    theorem_labels: Judgments
    groups: list[list[str]]
    problems: list[Row]


def rows(path: str) -> list[Row]:
    return [json.loads(line) for line in (data_root() / path).read_text(encoding="utf-8").splitlines()]


def table(path: str, *header: str) -> list[list[str]]:
    lines = [line.split("\t") for line in (data_root() / path).read_text(encoding="utf-8").splitlines()]
    assert lines[0] == list(header)
    assert all(len(line) == len(header) for line in lines)
    return lines[1:]


def grades(path: str) -> Judgments:
    """By the reader that users have: it refuses a pair that stands twice and a grade that is no integer."""
    return read_qrels(data_root() / path).to_dict()


MINI = Mini(
    topics=rows("topics/mini-task1.eng.jsonl"),
    translations={language: rows(f"topics/mini-task1.{language}.jsonl") for language in LANGUAGES},
    answers=rows("corpora/mini-answers.jsonl"),
    answer_grades=grades("qrels/mini-task1.txt"),
    notes=table("corpora/mini-notes.tsv", "topic", "doc", "grade", "reason"),
    formula_topics=rows("topics/mini-task2.jsonl"),
    formulas=rows("corpora/mini-formulas.jsonl"),
    formula_grades=grades("qrels/mini-task2.txt"),
    theorem_topics=rows("topics/mini-theorems.jsonl"),
    theorems=rows("corpora/mini-theorems.jsonl"),
    theorem_labels=grades("qrels/mini-theorems.txt"),
    groups=table("qrels/mini-theorems-groups.tsv", "group", "theorem", "label"),
    problems=rows("corpora/mini-problems.jsonl"),
)


def in_text(*texts: str) -> list[str]:
    """The LaTeX between dollar signs, in order."""
    return [display or inline for text in texts for display, inline in IN_TEXT.findall(text)]


def spaced(text: str) -> str:
    return " ".join(text.split())


def twice(values: Iterable[str]) -> list[str]:
    return [value for value, n in Counter(values).items() if n > 1]


def enough(mini: Mini) -> Iterator[str]:
    forms = Counter((topic["attributes"]["group"], topic["attributes"]["form"]) for topic in mini.theorem_topics)
    sizes = {
        "topics": (len(mini.topics), 40),
        "answers": (len(mini.answers), 240),
        "formula topics": (len(mini.formula_topics), 25),
        "judged formulas of a topic": (min(map(len, mini.formula_grades.values())), 8),
        "judged answers of a topic": (min(map(len, mini.answer_grades.values())), 6),
        "theorems": (len(mini.theorems), 60),
        "theorem queries": (len(mini.theorem_topics), 40),
        "groups": (len({group for group, _ in forms}), 10),
        "problems": (len(mini.problems), 30),
        **{f"topics in {language}": (len(found), 12) for language, found in mini.translations.items()},
    }
    yield from (f"{n} {name}, {least} wanted" for name, (n, least) in sizes.items() if n < least)
    yield from (f"no topic about {area}" for area in AREAS - {topic["attributes"]["area"] for topic in mini.topics})
    for group in {group for group, _ in forms}:
        if {form: n for (found, form), n in forms.items() if found == group} != dict.fromkeys(FORMS, 1):
            yield f"group {group} is not asked once in each form"
    for topic in mini.topics:
        if not topic["tags"] or not {"category", "difficulty", "dependency"} <= topic["attributes"].keys():
            yield f"{topic['id']}: tags, category, difficulty or dependency missing"


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


def balance(mini: Mini) -> Iterator[str]:
    for name, judgments, top in (
        ("answers", mini.answer_grades, 3),
        ("formulas", mini.formula_grades, 3),
        ("theorems", mini.theorem_labels, 2),
    ):
        found = Counter(grade for judged in judgments.values() for grade in judged.values())
        if set(found) != set(range(top + 1)):
            yield f"{name}: grades {sorted(found)}"
        for grade, n in found.items():
            if not 0.1 <= n / found.total() <= 0.5:
                yield f"{name}: {n} of {found.total()} have grade {grade}"
        for topic, judged in judgments.items():
            if max(judged.values()) < 2 or min(judged.values()) > 0:
                yield f"{topic}: no relevant document, or none that is not"


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


def visual_ids(mini: Mini) -> Iterator[str]:
    for formulas in (mini.formulas, [formula for answer in mini.answers for formula in answer["formulas"]]):
        names, looks = defaultdict(set), defaultdict(set)
        for formula in formulas:
            names[spaced(formula["latex"])].add(formula["visual_id"])
            looks[formula["visual_id"]].add(spaced(formula["latex"]))
        yield from (f"{latex}: {sorted(ids)}" for latex, ids in names.items() if len(ids) > 1)
        yield from (f"{name}: {sorted(latex)}" for name, latex in looks.items() if len(latex) > 1)
    yield from twice(f"{formula['visual_id']} in {formula['post']}" for formula in mini.formulas)


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


def no_duplicates(mini: Mini) -> Iterator[str]:
    for file, keys in (
        (mini.answers, ("body",)),
        (mini.topics, ("title", "body")),
        *((topics, ("title", "body")) for topics in mini.translations.values()),
        (mini.formula_topics, ("title", "body")),
        (mini.theorem_topics, ("title",)),
        (mini.theorems, ("formal", "doc", "informal")),
        (mini.problems, ("problem", "solution")),
    ):
        for key in keys:
            yield from twice(spaced(row[key]).casefold() for row in file)
            yield from (f"{row['id']}: no {key}" for row in file if not row[key].strip())


def groups_expand(mini: Mini) -> Iterator[str]:
    yield from twice(f"{theorem} in group {group}" for group, theorem, _ in mini.groups)
    labels: dict[str, dict[str, int]] = defaultdict(dict)
    for group, theorem, label in mini.groups:
        labels[group][theorem] = int(label)
    for topic in mini.theorem_topics:
        if mini.theorem_labels.get(topic["id"]) != labels.get(topic["attributes"]["group"]):
            yield f"{topic['id']}: other labels than its group {topic['attributes']['group']}"


def notes_agree(mini: Mini) -> Iterator[str]:
    noted = {(topic, answer): grade for topic, answer, grade, _ in mini.notes}
    judged = {(topic, a): str(grade) for topic, found in mini.answer_grades.items() for a, grade in found.items()}
    if noted != judged or len(noted) != len(mini.notes):
        yield f"notes and judgments differ: {sorted(noted.items() ^ judged.items())}"
    wrong = [(topic, grade) for topic, _, grade, reason in mini.notes if reason.startswith("wrong: ")]
    yield from (f"{topic}: wrong reasoning with grade {grade}" for topic, grade in wrong if grade != "0")
    for topic in mini.answer_grades.keys() - {topic for topic, _ in wrong}:
        yield f"{topic}: no answer with wrong reasoning"
    yield from (f"{topic} {answer}: no reason" for topic, answer, _, reason in mini.notes if not reason.strip())


def latex_of(mini: Mini) -> set[str]:
    """Every formula of the collection, from lists and from running text."""
    translated = [topic for topics in mini.translations.values() for topic in topics]
    listed = (*mini.topics, *translated, *mini.formula_topics, *mini.theorem_topics, *mini.answers)
    found = {formula["latex"] for row in listed for formula in row["formulas"]}
    found.update(*(in_text(row["title"], row["body"]) for row in listed))
    found |= {formula["latex"] for formula in mini.formulas}
    for row in mini.problems:
        found.update(in_text(row["problem"], row["solution"], row["answer"], row["technique"]))
    for row in mini.theorems:
        found.update(in_text(row["informal"]))
    return found


@cache
def misread(latex: str) -> str:
    """Why the LaTeX does not become proper MathML; empty if it does."""
    depth = 0
    for token in re.findall(r"\\.|[{}]", latex, re.DOTALL):
        depth += (token == "{") - (token == "}")
        if depth < 0:
            break
    if depth:
        return "unbalanced braces"
    if re.search(r"\\(?:[dt]?binom|sqrt)\s*\d\d", latex):
        return "two digits where TeX takes one: braces wanted"
    try:
        root = ElementTree.fromstring(convert(latex))  # noqa: S314 - our own formulas
    except Exception as error:  # the converter has no common base for its errors
        return f"not converted: {error!r}"
    shown = ""
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if len(element) != CHILDREN.get(name, len(element)):
            return f"{name} with {len(element)} children"
        if name in LEAVES:
            shown += element.text or ""
    if "\\" in shown:
        return "a command that is not known"
    for brace in "{}":
        if shown.count(brace) != latex.count("\\" + brace):
            return "a brace that became a symbol"
    return ""


def latex_renders(mini: Mini) -> Iterator[str]:
    yield from (f"{latex}: {misread(latex)}" for latex in sorted(latex_of(mini)) if misread(latex))


def lean_names(mini: Mini) -> Iterator[str]:
    for theorem in mini.theorems:
        declared = re.match(r"theorem ([\w.']+?)(?:\.\{[^}]*\})? ", theorem["formal"])
        if declared is None or declared[1] != theorem["id"] or " : " not in theorem["formal"]:
            yield f"{theorem['id']}: the formal statement declares something else"
        pairs = [theorem["formal"].count(bracket) for bracket in "(){}[]"]
        if pairs[::2] != pairs[1::2]:
            yield f"{theorem['id']}: brackets do not match"


def problems_complete(mini: Mini) -> Iterator[str]:
    for problem in mini.problems:
        complete = all(problem[key].strip() for key in ("problem", "solution", "answer", "technique"))
        if not complete or not problem["topics"] or problem["level"] not in range(1, 6):
            yield f"{problem['id']}: a field is empty or the level is none of 1 to 5"


Check = Callable[[Mini], Iterator[str]]
CHECKS: tuple[Check, ...] = (
    enough, unique_ids, judged_exist, balance, formulas_in_step, visual_ids, translations, no_duplicates,
    groups_expand, notes_agree, latex_renders, lean_names, problems_complete,
)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_collection_passes(check: Check) -> None:
    assert not list(check(MINI))


def set_latex(mini: Mini, latex: str) -> None:
    mini.formulas[0]["latex"] = latex


def replace_text(row: Row, key: str, old: str, new: str) -> None:
    assert old in row[key]
    row[key] = row[key].replace(old, new, 1)


def drop_relevant(mini: Mini) -> None:
    judged = mini.answer_grades["M.1"]
    for answer, grade in judged.items():
        judged[answer] = min(grade, 1)


def drop_group_form(mini: Mini) -> None:
    mini.theorem_topics[0]["attributes"]["form"] = mini.theorem_topics[1]["attributes"]["form"]


def same_answer_again(mini: Mini) -> None:
    mini.answers.append({**mini.answers[0], "id": "a9999", "body": mini.answers[0]["body"].upper() + " "})


def drop_hard_negative(mini: Mini) -> None:
    mini.notes[:] = [
        [topic, answer, grade, reason.removeprefix("wrong: ") if topic == "M.5" else reason]
        for topic, answer, grade, reason in mini.notes
    ]


FAULTS: tuple[tuple[Check, Callable[[Mini], object]], ...] = (
    (enough, lambda mini: mini.answers.__delitem__(slice(239, None))),
    (enough, lambda mini: mini.topics.__delitem__(slice(39, None))),
    (enough, lambda mini: mini.translations["hrv"].pop()),
    (enough, lambda mini: mini.problems.__delitem__(slice(29, None))),
    (enough, lambda mini: mini.formula_grades.update({"F.3": {"w_1": 3}})),
    (enough, drop_group_form),
    (enough, lambda mini: [t["attributes"].update(area="algebra") for t in mini.topics]),
    (unique_ids, lambda mini: mini.answers[1].update(id=mini.answers[0]["id"])),
    (unique_ids, lambda mini: mini.topics[0]["formulas"][1].update(id=mini.topics[0]["formulas"][0]["id"])),
    (judged_exist, lambda mini: mini.answers.pop()),
    (judged_exist, lambda mini: mini.answer_grades["M.2"].update({"a9999": 0})),
    (judged_exist, lambda mini: mini.theorem_topics.pop()),
    (judged_exist, lambda mini: mini.answers.append({**mini.answers[0], "id": "a9999"})),
    (balance, drop_relevant),
    (balance, lambda mini: mini.formula_grades.update({"F.1": dict.fromkeys(mini.formula_grades["F.1"], 2)})),
    (balance, lambda mini: [judged.update(dict.fromkeys(judged, 0)) for judged in mini.theorem_labels.values()]),
    (formulas_in_step, lambda mini: mini.topics[3]["formulas"].reverse()),
    (formulas_in_step, lambda mini: replace_text(mini.answers[0], "body", "$100", "$101")),
    (formulas_in_step, lambda mini: replace_text(mini.formula_topics[0], "body", "sqrt", "log")),
    (formulas_in_step, lambda mini: replace_text(mini.formula_topics[6], "body", "$a$", "$a")),
    (visual_ids, lambda mini: mini.formulas[0].update(visual_id=mini.formulas[1]["visual_id"])),
    (visual_ids, lambda mini: mini.answers[0]["formulas"][0].update(visual_id="v_0")),
    (translations, lambda mini: replace_text(mini.translations["pes"][0], "body", "x^3-3x", "x^3-4x")),
    (translations, lambda mini: mini.translations["ces"][2]["attributes"].update(translation="human")),
    (translations, lambda mini: mini.translations["spa"][0].update(id="M.99")),
    (translations, lambda mini: mini.translations["hrv"][0].update(language="spa")),
    (no_duplicates, same_answer_again),
    (no_duplicates, lambda mini: mini.theorems[0].update(informal=mini.theorems[1]["informal"])),
    (groups_expand, lambda mini: mini.theorem_labels["T.3.2"].popitem()),
    (groups_expand, lambda mini: mini.groups[0].__setitem__(2, "1")),
    (groups_expand, lambda mini: mini.groups.append(list(mini.groups[0]))),
    (notes_agree, lambda mini: mini.notes.pop()),
    (notes_agree, lambda mini: mini.notes[0].__setitem__(2, "3")),
    (notes_agree, lambda mini: mini.notes[0].__setitem__(3, " ")),
    (notes_agree, drop_hard_negative),
    (latex_renders, lambda mini: set_latex(mini, r"\frac{1}{2")),
    (latex_renders, lambda mini: set_latex(mini, r"}{")),
    (latex_renders, lambda mini: set_latex(mini, r"x^")),
    (latex_renders, lambda mini: set_latex(mini, r"\frac{1}")),
    (latex_renders, lambda mini: set_latex(mini, r"\begin{pmatrix}1&2")),
    (latex_renders, lambda mini: set_latex(mini, r"\binom93=84")),
    (latex_renders, lambda mini: set_latex(mini, r"\frac12\nosuchcommand")),
    (latex_renders, lambda mini: replace_text(mini.problems[0], "solution", "$", r"$\sqrt{")),
    (lean_names, lambda mini: replace_text(mini.theorems[2], "formal", mini.theorems[2]["id"], "Nat.other")),
    (lean_names, lambda mini: replace_text(mini.theorems[0], "formal", ")", "")),
    (problems_complete, lambda mini: mini.problems[5].update(solution=" ")),
    (problems_complete, lambda mini: mini.problems[5].update(level=6)),
)


@pytest.mark.parametrize(("check", "spoil"), FAULTS, ids=lambda part: part.__name__.strip("<>"))
def test_a_broken_copy_is_noticed(check: Check, spoil: Callable[[Mini], object]) -> None:
    broken = copy.deepcopy(MINI)
    spoil(broken)
    assert list(check(broken))


def test_every_check_is_shown_to_fail() -> None:
    assert {check for check, _ in FAULTS} == set(CHECKS)


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
