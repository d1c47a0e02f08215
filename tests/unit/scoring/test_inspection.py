"""What `harness check` finds in a run: each rule on a run made for it, none on a good one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.trec import Qrels, Run, parse_run
from harness.scoring.inspection import RULES, Finding, InspectionContext, inspect

TOPICS = [f"q{n}" for n in range(8)]


def good(topics: Sequence[str] = TOPICS, results: int = 12) -> dict[str, dict[str, float]]:
    """Rankings with other documents and uneven scores in each topic."""
    rng = np.random.default_rng(1)
    return {topic: {f"d{topic}-{n}": float(10 - n + rng.uniform(0.0, 0.4)) for n in range(results)} for topic in topics}


def names(found: Sequence[Finding]) -> list[str]:
    return [each.rule.name for each in found]


def one(found: Sequence[Finding], name: str) -> Finding:
    (finding,) = [each for each in found if each.rule.name == name]
    return finding


def rows(lines: Sequence[str]) -> Run:
    """A run of lines `topic document rank score`."""
    text = "".join(f"{topic} Q0 {doc} {rank} {score} t\n" for topic, doc, rank, score in map(str.split, lines))
    return parse_run(text.encode(), "mine.run")


def test_a_good_run_has_no_findings() -> None:
    judged = Qrels.from_dict("e", {topic: {f"d{topic}-0": 0, f"d{topic}-3": 1, "other": 2} for topic in TOPICS})
    docs = {doc for ranking in good().values() for doc in ranking}
    assert inspect(Run.from_dict("r", good()), InspectionContext(set(TOPICS), TOPICS, docs, judged, depth=1000)) == []
    assert inspect(Run.from_dict("r", good())) == []


def test_coverage() -> None:
    rankings = {**good(), "q1": {"dq1-0": 2.5, "dq1-1": 1.0, "x": 0.2}}
    run = Run.from_dict("r", rankings)
    found = inspect(run, InspectionContext(set(TOPICS[1:]), [*TOPICS, "q8", "q9"], {"x"}, depth=11))
    assert names(found) == ["unknown-topic", "unknown-document", "missing-topics", "short-topics", "beyond-depth"]
    assert one(found, "unknown-topic").message == "the collection lacks 1 topic, such as 'q0'"
    assert one(found, "unknown-topic").row == 0
    assert one(found, "unknown-document").message == "the corpus lacks 86 documents, such as 'dq0-0'"
    assert one(found, "missing-topics").message == "2 of 10 topics have no results, such as 'q8'"
    assert one(found, "short-topics").message == "1 of 8 topics have fewer than 10 results, such as 'q1'"
    assert one(found, "beyond-depth").message == "7 of 8 topics have more than 11 results, such as 'q0'"


def test_orders() -> None:
    found = inspect(rows(["a d1 1 3.5", "b d1 1 2.5", "b d2 2 2.9", "a d2 2 1.1", "a d3 3 2.2"]))
    assert names(found) == ["short-topics", "rank-order", "file-order", "split-topic"]
    assert one(found, "rank-order").line == 5
    assert one(found, "file-order").message.startswith("2 results have a higher score than the result before them")
    assert one(found, "file-order").row == 4  # by topic, the first one that rises is d3 of a
    assert one(found, "split-topic").row == 3


def test_scores() -> None:
    constant = Run.from_dict("r", {**good(), "q3": dict.fromkeys(good()["q3"], 1.0)})
    found = inspect(constant)
    assert names(found) == ["constant-scores", "ties"]
    assert one(found, "constant-scores").message == "1 of 8 topics have one score for all results, such as 'q3'"
    assert one(found, "constant-scores").row == 36
    assert one(found, "ties").message == "12 of 96 results are tied, 10 of them among the first 10"
    near = {**good(), "q0": {"a": 1.0, "b": 1.0 - 1e-12, "c": 0.4, "d": 0.05}}
    found = inspect(Run.from_dict("r", near))
    assert names(found) == ["short-topics", "single-precision"]
    assert one(found, "single-precision").row == 1


@pytest.mark.parametrize("score", [lambda rank: 1 / rank, lambda rank: 1000 - rank, lambda rank: -0.5 * rank])
def test_scores_of_ranks(score: object) -> None:
    rankings = {topic: {doc: score(n) for n, doc in enumerate(docs, 1)} for topic, docs in good().items()}  # type: ignore[operator]
    assert names(inspect(Run.from_dict("r", rankings))) == ["ranks-as-scores"]


def test_rankings() -> None:
    first = list(good()["q0"].items())
    same = {**good(), "q5": dict(first), "q6": dict(first)}
    found = inspect(Run.from_dict("r", same))
    assert names(found) == ["same-ranking"]
    assert found[0].message == "3 of 8 topics have the same first 10 results, such as 'q0'"
    common = {topic: {"hub": 10.9 + n / 100, **docs} for n, (topic, docs) in enumerate(good().items())}
    found = inspect(Run.from_dict("r", common))
    assert names(found) == ["common-document"]
    assert found[0].message == "document 'hub' is among the first 10 results of 8 of 8 topics"


def judged(grades: Mapping[str, Sequence[int]]) -> Qrels:
    return Qrels.from_dict("e", {topic: {f"d{topic}-{n}": g for n, g in enumerate(of)} for topic, of in grades.items()})


def test_runs_in_the_order_of_the_judgments() -> None:
    run = Run.from_dict("r", good(results=6))
    found = inspect(run, InspectionContext(qrels=judged({topic: [3, 2, 2, 1, 0, 0] for topic in TOPICS})))
    assert names(found) == ["short-topics", "judged-only", "judgment-order"]
    assert one(found, "judgment-order").message.startswith("in 8 of 8 topics, results fall by their grade")
    two = judged({topic: [3, 2, 2, 1, 0, 0] if n > 1 else [0, 3, 1, 1, 0, 0] for n, topic in enumerate(TOPICS)})
    assert "judgment-order" not in names(inspect(run, InspectionContext(qrels=two)))
    # A result that is not judged among the relevant ones: the order is the system's own.
    open_ = {topic: {f"d{topic}-{n}": g for n, g in enumerate([3, 2, 2, 1, 0, 0]) if n != 1} for topic in TOPICS}
    assert names(inspect(run, InspectionContext(qrels=Qrels.from_dict("e", open_)))) == ["short-topics"]


def test_judgments_of_others() -> None:
    run = Run.from_dict("r", good())
    found = inspect(run, InspectionContext(qrels=Qrels.from_dict("e", {"q0": {"else": 1}})))
    assert names(found) == ["no-judged-document"]
    assert inspect(run, InspectionContext(qrels=Qrels.from_dict("e", {"other": {"else": 1}}))) == []
    keys = {f"dq0-{n}": f"k{n}" for n in range(12)}
    assert inspect(run, InspectionContext(qrels=Qrels.from_dict("e", {"q0": {"k3": 1}}), keys=keys)) == []


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.dictionaries(
            st.sampled_from("uvwxyz"), st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6
        ),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("uvw"), st.integers(0, 3), min_size=1)),
)
def test_any_run_is_checked(rankings: dict[str, dict[str, float]], grades: dict[str, dict[str, int]]) -> None:
    """Nothing fails, findings are in the order of the rules, and their rows are rows of the run."""
    run = Run.from_dict("r", rankings)
    qrels = Qrels.from_dict("e", grades) if grades else None
    found = inspect(run, InspectionContext(set("abc"), "abc", set("uvw"), qrels, depth=2))
    places = [list(RULES).index(each.rule.name) for each in found]
    assert places == sorted(places)
    assert all(each.row is None or 0 <= each.row < len(run) for each in found)
    tied = any(len(set(docs.values())) < len(docs) for docs in rankings.values())
    assert ("ties" in names(found)) == tied
