"""The databank: mathematics in dollars by rule, duplicates, balance, sources and their faults."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from case_tables import literals, table
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refusal

from harness.errors import HarnessError
from harness.formulas.text.delimiters import formula_spans
from harness.papers.saber import databank as bank
from harness.papers.saber.databank import Balance, DatabankSettings, MathProblem, ProblemSource, databank, read_source
from harness.papers.saber.dollars import in_dollars, without_dollars

SOURCES = (ProblemSource("s", corpus="c"),)
PLAIN = DatabankSettings(SOURCES, delimiters="none")
PIECES = st.sampled_from(
    [r"\(", r"\)", r"\[", r"\]", "$", "$$", "x", " ", "12", " + ", "=", "is ", "f(x)", "n^2", r"\$", "\n", "a ", "I ",
     r"\begin{align*}", r"\end{align*}", r"\text{", "}", "{", "e.g. ", "3-digit ", ".", ",", "[asy] draw(1); [/asy]",
     r"\begin{itemize}", r"\end{itemize}", "3.5%", "don't ", r"\pi", "_{10}", "A.M. ", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join))
@example(r"\begin{align*}\(\end{align*}f(x)")
@settings(max_examples=examples(400), deadline=None)
def test_dollars_change_nothing_else_and_are_put_once(text: str) -> None:
    out, good = in_dollars(text)
    assert without_dollars(out) == without_dollars(text)
    if not good:
        assert out == text
        return
    assert in_dollars(out) == (out, True)
    assert not [span for span in formula_spans(out) if span.kind in ("round", "square")]


@pytest.mark.parametrize(("text", "expected"), table("papers/dollars"))
def test_dollars_by_example(text: str, expected: str) -> None:
    assert in_dollars(text) == (expected, True)


def test_a_dollar_without_its_pair_leaves_the_text_alone() -> None:
    assert in_dollars(r"It costs 5$ and \(x\).")[0].count("$") in (1, 3)
    assert in_dollars("It costs 5$ for x = 2.") == ("It costs 5$ for x = 2.", False)


# ---- duplicates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_duplicates_are_those_of_all_pairs(threshold: float) -> None:
    rng = random.Random(3)
    texts: list[list[str]] = []
    for _ in range(250):
        if texts and rng.random() < 0.4:
            copy = list(rng.choice(texts))
            for _ in range(rng.randrange(4)):
                copy[rng.randrange(len(copy))] = rng.choice("uvwxyz")
            texts.append(copy)
        else:
            texts.append([rng.choice("abcdefghijklmnop") for _ in range(rng.randint(8, 40))])
    sets = [bank.shingles(text, 2) for text in texts]
    kept: list[int] = []
    expected = {}
    for i in range(len(sets)):
        like = [j for j in kept if bank.jaccard(sets[i], sets[j]) >= threshold]
        if like:
            expected[i] = like[0]
        else:
            kept.append(i)
    found = bank.earlier(sets, threshold)
    assert len(expected) > 20
    assert all(bank.jaccard(sets[i], sets[j]) >= threshold for i, j in found.items())
    # Banding may miss a pair just at the threshold, with a probability below 1 %.
    assert len(found.keys() ^ expected.keys()) <= 0.02 * len(expected)


def test_texts_that_are_equal_but_for_blanks_dollars_and_case_are_one_problem() -> None:
    problems = [MathProblem("a", "Find $x$  now, please.", "1"), MathProblem("b", "find x now, please.", "2")]
    kept, counts = databank(problems, PLAIN)
    assert [each.id for each in kept] == ["a"]
    assert counts["exact duplicates"] == 1
    assert counts["near duplicates"] == 0


def test_near_duplicates_keep_the_first() -> None:
    text = "Find the number of ways to put eight rooks on a board so that no two of them attack each other at all"
    texts = {"a": text, "b": text.replace("Find", "Give"), "c": "Other one"}
    problems = [MathProblem(name, of, f"by {name}") for name, of in texts.items()]
    kept, counts = databank(problems, PLAIN)
    assert [each.id for each in kept] == ["a", "c"]
    assert counts["near duplicates"] == 1
    kept, _ = databank(problems, DatabankSettings(SOURCES, "none", bank.Duplicates(threshold=1.0)))
    assert len(kept) == 3


# ---- balance ----------------------------------------------------------------------------------------------------


def many(source: str, count: int) -> list[MathProblem]:
    rng = random.Random(source)
    words = ["".join(rng.choice("abcdefgh") for _ in range(6)) for _ in range(400)]
    return [MathProblem(f"{source}{i}", " ".join(rng.sample(words, 12)), "s", source) for i in range(count)]


def test_balance_draws_from_the_large_source_alone() -> None:
    problems = [*many("forum", 50), *many("official", 10)]
    settings = DatabankSettings(SOURCES, "none", balance=Balance(("forum",), 1.5, 7))
    kept, counts = databank(problems, settings)
    assert counts["kept from forum"] == 15
    assert counts["kept from official"] == 10
    assert counts["dropped for balance"] == 35
    order = [each.id for each in problems]
    assert [each.id for each in kept] == sorted((each.id for each in kept), key=order.index)
    assert databank(problems, settings)[0] == kept
    other, _ = databank(problems, DatabankSettings(SOURCES, "none", balance=Balance(("forum",), 1.5, 8)))
    assert other != kept
    with pytest.raises(HarnessError, match="no problem comes from 'forun'; did you mean 'forum'"):
        databank(problems, DatabankSettings(SOURCES, "none", balance=Balance(("forun",))))


def test_every_problem_read_is_counted_once() -> None:
    problems = [*many("a", 30), MathProblem("e", " ", "s"), MathProblem("f", "A statement alone", "")]
    kept, counts = databank([*problems, MathProblem("g", problems[0].statement, "s")], PLAIN)
    assert counts["read"] == 33
    left = counts["without statement or solution"] + counts["exact duplicates"] + counts["near duplicates"]
    assert counts["kept"] == len(kept) == 33 - left == 30


def test_ids_that_come_twice_and_nothing_left() -> None:
    with pytest.raises(HarnessError, match="problem 'a' occurs twice"):
        databank([MathProblem("a", "x", "y"), MathProblem("a", "z", "w")], PLAIN)
    with pytest.raises(HarnessError, match="no problem was kept"):
        databank([MathProblem("a", "", "y")], PLAIN)


# ---- sources ----------------------------------------------------------------------------------------------------


def test_a_file_of_json_lines_and_back(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [{"no": 1, "q": "What?", "a": "That.", "contest": "IMO"}, {"no": "2", "q": "Who?", "a": "She."}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = ProblemSource("mine", file={"file": str(path)}, id="no", statement="q", solution="a", source="contest")
    problems = list(read_source(source))
    assert problems == [MathProblem("1", "What?", "That.", "IMO"), MathProblem("2", "Who?", "She.", "mine")]
    bank.write_problems(tmp_path / "out.jsonl", problems)
    assert list(bank.read_problems(tmp_path / "out.jsonl").values()) == problems


def test_half_a_character_does_not_stop_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": 1, "statement": "x \\ud800", "solution": "\\ud835\\udd38"}\n')
    (problem,) = read_source(ProblemSource("mine", file={"file": str(path)}))
    assert (problem.statement, problem.solution) == ("x ?", "\U0001d538")
    bank.write_problems(tmp_path / "out.jsonl", [problem])
    assert list(bank.read_problems(tmp_path / "out.jsonl").values()) == [problem]


def test_a_corpus_gives_problems_under_its_name() -> None:
    source = ProblemSource("mini", corpus="mini-answers", statement="title", solution="body", subject="tags")
    found = list(read_source(source))
    assert len(found) > 10
    assert all(each.id.startswith("mini-") and each.source == "mini" and each.solution for each in found)
    with pytest.raises(HarnessError, match="no document of mini-answers has 'titel'; did you mean 'title'"):
        list(read_source(ProblemSource("mini", corpus="mini-answers", statement="titel", solution="body")))


@pytest.mark.parametrize(("line", "said"), literals("papers/problem_lines"))
def test_a_line_that_is_no_problem_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": 1, "statement": "x", "solution": "y"}\n\n' + line + "\n")
    line = refusal(lambda: list(read_source(ProblemSource("s", file={"file": str(path)}))))
    assert f"{path}:3: " in line
    assert said in line
