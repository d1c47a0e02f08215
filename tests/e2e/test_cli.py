"""What the commands print and write, compared with values computed here in another way."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from tools import PROGRESS, QRELS, Place, table

from harness import __version__
from harness.io.files import sha256_file

Grades = dict[str, dict[str, int]]
Ranking = Sequence[str]


GRADES: Grades = {}
for topic, _, doc, grade in map(str.split, QRELS.read_text().splitlines()):
    GRADES.setdefault(topic, {})[doc] = int(grade)


def made_up(step: int) -> dict[str, list[str]]:
    """A ranking for most topics: judged documents in an order that depends on `step`, unjudged ones between them."""
    rankings = {}
    for number, topic in enumerate(GRADES):
        if number % 10 == 9:
            continue  # a topic that the run does not answer
        judged = sorted(GRADES[topic])
        turned = [judged[(i * step + number) % len(judged)] for i in range(len(judged))]
        rankings[topic] = [doc for i, doc in enumerate(dict.fromkeys(turned)) for doc in (f"unjudged{i}", doc)][1:]
    return rankings


def as_run(rankings: Mapping[str, Ranking], tag: str) -> str:
    return "".join(
        f"{topic} Q0 {doc} {rank} {1000 - rank} {tag}\n"
        for topic, docs in rankings.items()
        for rank, doc in enumerate(docs, 1)
    )


def prime_scores(ranking: Ranking, grades: Mapping[str, int]) -> dict[str, float]:
    """ARQMath's measures of one topic, straight from their definitions."""
    kept = [doc for doc in ranking if doc in grades]
    gains = [grades[doc] for doc in kept]
    relevant = [grade >= 2 for grade in gains]
    total = sum(grade >= 2 for grade in grades.values())

    def dcg(values: Iterable[int]) -> float:
        return sum(value / math.log2(rank + 1) for rank, value in enumerate(values, 1))

    ideal = dcg(sorted(grades.values(), reverse=True))
    precisions = [sum(relevant[: i + 1]) / (i + 1) for i, hit in enumerate(relevant) if hit]
    return {
        "nDCG": dcg(gains) / ideal if ideal else 0.0,
        "AP": sum(precisions) / total if total else 0.0,
        "P@10": sum(relevant[:10]) / 10,
        "Judged@10": sum(doc in grades for doc in ranking[:10]) / min(10, len(ranking)) if ranking else math.nan,
    }


def expected(rankings: Mapping[str, Ranking], measure: str) -> list[float]:
    return [prime_scores(rankings.get(topic, ()), GRADES[topic])[measure] for topic in GRADES]


def shown_p(value: float) -> str:
    return "<.0001" if value < 0.0001 else f"{value:.4f}"


def mean(values: Iterable[float]) -> float:
    counted = [value for value in values if not math.isnan(value)]
    return math.fsum(counted) / len(counted)


FIRST, SECOND = made_up(3), made_up(7)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("first.run", as_run(FIRST, "first"))
    made.write("second.run.gz", gzip.compress(as_run(SECOND, "second").encode()))
    return made


def test_score_prints_means(place: Place) -> None:
    measures = ("nDCG", "AP", "P@10", "Judged@10")
    printed = place.good("score", "first.run", "second.run.gz", "-c", "mini-task1", "--measures", ",".join(measures))
    header, *rows, said = table(printed)
    assert header == ["run", "nDCG′", "MAP′", "P′@10", "Judged@10", "n", "missing"]
    for row, (name, rankings) in zip(rows, (("first", FIRST), ("second", SECOND)), strict=True):
        assert row == [name, *(f"{mean(expected(rankings, m)):.4f}" for m in measures), "42/42/42/38", "4"]
    digest = re.fullmatch(r"mini-task1, edition official \(judgments ([0-9a-f]{12})\), protocol arqmath-task1", said[0])
    assert digest
    assert sha256_file(QRELS).startswith(digest[1])
    assert set(place.files()) == {"first.run", "second.run.gz"}


def test_score_prints_topics(place: Place) -> None:
    printed = place.good("score", "first.run", "-c", "mini-task1", "--per-topic", "--measures", "nDCG,AP")
    header, *rows = (line.split("\t") for line in printed.splitlines())
    assert header == ["run", "topic", "nDCG", "AP"]
    assert [row[:2] for row in rows] == [["first", topic] for topic in GRADES]
    for column, measure in ((2, "nDCG"), (3, "AP")):
        assert [float(row[column]) for row in rows] == pytest.approx(expected(FIRST, measure), abs=1e-12)


def test_another_protocol_counts_unjudged_documents(place: Place) -> None:
    printed = place.good("score", "first.run", "-c", "mini-task1", "--protocol", "trec_eval", "--measures", "P@10")
    relevant = [sum(GRADES[t].get(doc, 0) >= 1 for doc in FIRST.get(t, ())[:10]) / 10 for t in GRADES]
    assert table(printed)[1] == ["first", f"{mean(relevant):.4f}", "42", "4"]


@pytest.mark.slow
def test_compare_with_a_baseline(place: Place) -> None:
    from scipy import stats

    arguments = ("-c", "mini-task1", "--baseline", "second", "--measures", "nDCG,AP", "--family", "6", "-o", "out")
    printed = place.good("compare", "first.run", "second.run.gz", *arguments)
    rows = table(printed[printed.index("\n\n") + 2 :])
    assert " ".join(rows[0]) == "a b measure n a - b 95% interval d p Bonferroni Holm randomization"
    for row, measure, label in zip(rows[1:], ("nDCG", "AP"), ("nDCG′", "MAP′"), strict=False):
        x, y = expected(FIRST, measure), expected(SECOND, measure)
        test = stats.ttest_rel(x, y)
        low, high = test.confidence_interval(0.95)
        difference = mean(a - b for a, b in zip(x, y, strict=True))
        assert row[:4] == ["first", "second", label, "42"]
        assert row[4].rstrip("*") == f"{difference:+.4f}"
        assert row[5] == f"[{low:+.4f}, {high:+.4f}]"
        assert row[7:9] == [shown_p(test.pvalue), shown_p(min(1, 6 * test.pvalue))]
    (said,) = rows[3]
    assert said.startswith(
        "* significant after Bonferroni's correction: two-sided paired t-test, alpha 0.05; "
        "Bonferroni and Holm over a family of 6 tests, 2 of them shown; "
        "randomization tests draw 10,000 sign flips, standard error of p at most "
    )
    comparison = json.loads(place.files("out")["out/report.json"])["data"]["comparison"]
    assert (comparison["baseline"], comparison["family"], len(comparison["rows"])) == ("second", 6, 2)


@pytest.mark.slow
def test_version_fetch_and_help(place: Place) -> None:
    """Embedded collections need no files, so that they can always be had."""
    assert place.good("--version") == place.good("version") == f"mathir-harness {__version__}\n"
    assert place.good("fetch", "--probe", "mini-task1") == "mini-task1: here or reachable\n"
    assert place.good("fetch", "mini-task1", "mini-task2") == "0 files, checksums right\n"
    assert place.good() == place.good("--help")
    for group in ("lab", "new", "organise", "site", "store", "build"):
        text = place.good(group, "--help")
        assert "\nCommands:\n" in text
        assert (place.good(group), place.good(group, "--")) == (text, text)
    printed = place.good("score", "first.run", "-c", "mini-task1", environment={"PYTHONIOENCODING": "ascii"})
    assert printed.splitlines()[1].startswith("first  ")  # of a terminal without the prime
    assert set(place.files()) == {"first.run", "second.run.gz"}
    assert not place.cache.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("score", "first.run", "-c", "mini-task1", "--per-topic"), ("list", "systems"), ("reproduce",)]
)
def test_a_reader_that_goes_away_is_no_fault(place: Place, arguments: tuple[str, ...]) -> None:
    process = place.start(*arguments)
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    # 0 if all was written before the pipe was closed, which is the operating system's to decide.
    assert process.wait(60) in (0, 141)
    assert "Error" not in said
    known = re.compile(rf"(running |corpus |topics: ).*|{PROGRESS.pattern}")
    assert [line for line in said.splitlines() if not known.fullmatch(line)] == []
