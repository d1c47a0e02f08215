from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.data.topics import Topics
from harness.data.trec import Run
from harness.experiments.evaluate import Evaluation, evaluate
from harness.experiments.evaluate import compare as compare_runs
from harness.experiments.task import task
from harness.render.formats import render_markdown
from harness.render.model import Figure, Prose, Table
from harness.render.write import Report
from harness.reports.comparison import by_group, comparison_headline
from harness.reports.comparison import report as report_on
from harness.reports.means import comparison_means_table
from harness.reports.means import paper_means_table as paper_table
from harness.reports.pair_tests import shown_p
from harness.reports.parts import per_topic_table
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.store.provenance import provenance

TOPICS = [f"T{n:02}" for n in range(12)]
GOOD, BAD = ("good", "bad"), ("bad", "good")
Make = Callable[..., tuple[Evaluation, Scorer, list[Run]]]


@pytest.fixture
def make(conf: Callable[[str, str, str], Path], tmp_path: Path) -> Make:
    """A function that scores runs: name -> for each topic its documents, best first (None: not answered)."""
    hostile = '<b>"T01"</b>'
    topics = [
        {"id": t, "title": hostile if t == "T01" else f"title {t}", "attributes": {"kind of topic": "ab"[n % 2]}}
        for n, t in enumerate(TOPICS)
    ]
    (tmp_path / "topics.jsonl").write_text("".join(json.dumps(topic) + "\n" for topic in topics))
    (tmp_path / "qrels.txt").write_text("".join(f"{t} 0 good 1\n{t} 0 bad 0\n" for t in TOPICS))
    conf(
        "collection",
        "mine",
        f"""
name: mine
title: My <collection>
licence: CC0
protocol: plain
editions: {{first: {{title: the first, qrels: {{file: '{tmp_path}/qrels.txt'}}, topics: 12, judgments: 24}}}}
topics: {{reader: jsonl, file: '{tmp_path}/topics.jsonl'}}
notes: [Mind the gap.]
""",
    )
    conf("protocol", "plain", "name: plain\ntitle: Plain\nmeasures: [RR, P@1]\nprime: true\n")

    def build(**runs: Sequence[Sequence[str] | None]) -> tuple[Evaluation, Scorer, list[Run]]:
        mine = task("mine")
        made = [
            Run.from_dict(
                name,
                {t: {d: float(-n) for n, d in enumerate(docs)} for t, docs in zip(TOPICS, ranked, strict=True) if docs},
            )
            for name, ranked in runs.items()
        ]
        return evaluate(mine, *made), mine.scorer, made

    return build


def three(make: Make) -> tuple[Evaluation, Comparison]:
    """`base` is always .5; `best` is better on 11 topics and lacks one; `some` is better on four."""
    evaluation, _, _ = make(base=[BAD] * 12, best=[GOOD] * 11 + [None], some=[GOOD] * 4 + [BAD] * 8)
    return evaluation, compare(evaluation.scores, "base")


def report_of(evaluation: Evaluation, comparison: Comparison | None, **files: str) -> Report:
    return report_on(evaluation, comparison, provenance=provenance(files, ["harness", "compare"]))


def tables(report: Report) -> dict[str, Table]:
    return {table.id: table for table in report.tables()}


def grid(table: Table) -> list[list[str]]:
    return [[column.full_title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]


def words(report: Report, title: str) -> list[str]:
    (section,) = (section for section in report.sections if section.title == title)
    return [line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs]


def test_the_headline_names_the_best_run(make: Make) -> None:
    evaluation, comparison = three(make)
    expected = "3 runs on mine (edition first, n = 12): best MRR′ 0.917 by best"
    assert comparison_headline(evaluation) == expected
    assert report_of(evaluation, comparison).headline == expected
    single, _, _ = make(base=[BAD] * 12)
    assert comparison_headline(single) == "1 run on mine (edition first, n = 12): MRR′ 0.500 by base"


def test_a_single_run_is_never_called_the_best(make: Make) -> None:
    single, _, _ = make(alone=[GOOD] * 12)
    report = report_of(single, None)
    assert {mark for table in report.tables() for row in table.rows for cell in row for mark in cell.marks} == set()
    assert "best" not in render_markdown(report)


def test_the_result_stands_before_the_protocol(make: Make) -> None:
    evaluation, comparison = three(make)
    report = report_of(evaluation, comparison)
    assert [section.title for section in report.sections][:2] == ["Results", "Data and protocol"]
    lead, drawn, means, _ = report.sections[0].blocks
    assert isinstance(lead, Prose) and isinstance(drawn, Figure)
    assert lead.paragraphs[0].startswith("best is 0.250 above the next, some: not significant (p = ")
    assert means == comparison_means_table(evaluation, comparison)


def test_figures_and_tables_have_one_order(make: Make) -> None:
    evaluation, _, _ = make(low=[BAD] * 12, high=[GOOD] * 12, some=[GOOD] * 4 + [BAD] * 8, most=[GOOD] * 9 + [BAD] * 3)
    comparison = compare(evaluation.scores, "low")
    report = report_of(evaluation, comparison)
    ranked = ["high", "most", "some", "low"]
    assert [row[0].text for row in tables(report)["means"].rows] == ranked

    def names(figure_id: str) -> list[str]:
        (figure,) = (b for b in report.blocks() if isinstance(b, Figure) and b.id == figure_id)
        return [name for name in re.findall(r">([a-z]+)</text>", figure.svg) if name in ranked]

    assert names("distribution") == ranked
    assert names("differences") == ranked[:3]
    tests = tables(report)["tests"].rows
    assert [row[0].text for row in tests] == [name for name in ranked[:3] for _ in range(2)]
    # Without a baseline too: each pair, by the place of its first run and then of its second.
    pairs = tables(report_of(evaluation, compare(evaluation.scores)))["tests"].rows
    places = [(ranked.index(row[0].text), ranked.index(row[1].text)) for row in pairs]
    assert places == sorted(places)


def test_means_with_n_and_marks(make: Make) -> None:
    evaluation, comparison = three(make)
    table = comparison_means_table(evaluation, comparison)
    assert grid(table) == [
        ["run", "n", "MRR′ / mean", "P′@1 / mean", "topics missing"],
        ["best", "12", "0.917", "0.917", "1"],
        ["some", "12", "0.667", "0.333", "0"],
        ["base", "12", "0.500", "0.000", "0"],
    ]
    assert [[cell.marks for cell in row] for row in table.rows] == [
        [(), (), ("better", "best"), ("better", "best"), ()],
        [(), (), ("nominally-better",), ("nominally-better",), ()],
        [("baseline",), (), (), (), ()],
    ]
    assert table.notes[0] == "Protocol plain; edition first."
    assert table.notes[1].startswith(f"Tests: {comparison.correction}")


def test_what_was_compared(make: Make) -> None:
    evaluation, comparison = three(make)
    sha = evaluation.scores[0].qrels_sha256
    report = report_on(evaluation, comparison, provenance=provenance({}), remarks=["A remark."])
    assert words(report, "Data and protocol")[:3] == [
        f"My <collection>; judgments: the first (12 topics, 24 judgments, SHA-256 {sha[:12]}…).",
        "Mind the gap.",
        "A remark.",
    ]
    assert words(report, "Data and protocol")[3] == "Protocol plain: Plain."
    assert report.title == "My <collection>"
    assert report_on(evaluation, comparison, provenance=provenance({}), title="Other").title == "Other"


def test_the_tests_are_shown(make: Make) -> None:
    evaluation, comparison = three(make)
    table = tables(report_of(evaluation, comparison))["tests"]
    head, *rows = grid(table)
    first = dict(zip(head, rows[0], strict=True))
    row = comparison.rows[0]
    assert (first["run"], first["against"], first["measure"], first["n"]) == ("best", "base", "MRR′", "12")
    assert first["difference"] == "0.4167"
    assert first["wins / ties / losses"] == "11 / 0 / 1"
    assert row.p is not None
    assert row.p_bonferroni is not None
    assert first["p"] == f"{row.p:.4f}"
    assert first["Bonferroni"] == f"{row.p_bonferroni:.4f}" == f"{4 * row.p:.4f}"
    assert first["95% interval"] == f"{row.ci_low:+.4f} to {row.ci_high:+.4f}"
    assert row.detectable is not None
    assert row.detectable_corrected is not None
    assert row.detectable < row.detectable_corrected
    assert first["detectable / Bonferroni"] == f"{row.detectable:.3f} / {row.detectable_corrected:.3f}"
    assert len(rows) == 4
    assert table.notes == (
        "The table of means describes the tests.",
        "Detectable: the least difference found with a power of 0.8, without and with Bonferroni.",
    )


def test_tests_that_are_undefined_are_shown_so(make: Make) -> None:
    evaluation, _, _ = make(base=[BAD] * 12, best=[GOOD] * 12)
    table = tables(report_of(evaluation, compare(evaluation.scores, "base")))["tests"]
    head, *rows = grid(table)
    first = dict(zip(head, rows[0], strict=True))
    assert (first["p"], first["Bonferroni"], first["effect size d"]) == ("undefined",) * 3
    assert first["detectable / Bonferroni"] == "n/a"
    assert first["difference"] == "0.5000"


def test_slices_have_their_n(make: Make) -> None:
    evaluation, comparison = three(make)
    table = tables(report_of(evaluation, comparison))["slice-kind-of-topic"]
    assert table.caption == "MRR′ by kind of topic"
    assert grid(table) == [
        ["run", "kind of topic / a (n = 6)", "kind of topic / b (n = 6)"],
        ["best", "1.000", "0.833"],
        ["some", "0.667", "0.667"],
        ["base", "0.500", "0.500"],
    ]


def test_topics_without_a_value_are_not_in_the_n_of_a_slice(make: Make) -> None:
    """T00 (kind a) counts for no run, T01 (kind b) not for one of the runs, by hand."""
    evaluation, _ = three(make)

    def without(scores: Scores) -> Scores:
        values = scores.values.copy()
        values[0] = np.nan
        values[1] = np.nan if scores.run == "some" else values[1]
        return replace(scores, values=values)

    evaluation = replace(evaluation, scores=tuple(map(without, evaluation.scores)))
    table = tables(report_of(evaluation, None))["slice-kind-of-topic"]
    assert grid(table) == [
        ["run", "kind of topic / a (n = 5)", "kind of topic / b (n = 5 to 6)"],
        ["best", "1.000", "0.833"],
        ["some", "0.600", "0.600"],
        ["base", "0.500", "0.500"],
    ]
    assert [[cell.note for cell in row[1:]] for row in table.rows] == [["", ""], ["", "n = 5"], ["", ""]]
    groups = by_group(evaluation.scores, {topic: "ab"[n % 2] for n, topic in enumerate(TOPICS)}, "RR", "MRR", "kind")
    assert groups.table is not None
    assert [[cell.text for cell in row] for row in groups.table.rows] == [
        ["a", "5", "0.500", "1.000", "0.600"],
        ["b", "5 to 6", "0.500", "0.833", "0.600"],
    ]


def test_what_is_best_and_what_ties(make: Make) -> None:
    """Headline, table and sentence name the same runs; Judged@k, which is coverage, has no best."""
    evaluation, _, _ = make(a=[GOOD] * 12, b=[GOOD] * 12, c=[BAD] * 12)
    report = report_of(evaluation, None)
    assert report.headline.endswith(": best MRR′ 1.000 by a and b, which tie")
    assert words(report, "Results")[0].startswith("a is 0.500 above the next, c (test undefined).")
    assert [row[0].text for row in tables(report)["means"].rows if "best" in row[2].marks] == ["a", "b"]
    judged = evaluate(task("mine", measures=["Judged@1", "RR"]), *evaluation.runs[:2])
    assert comparison_headline(judged).endswith(": Judged@1 1.000 by a and b, which tie")
    some = Run.from_dict("some", {topic: {"unknown": 1.0} for topic in TOPICS})
    judged = evaluate(task("mine", measures=["Judged@1", "RR"]), evaluation.runs[0], some)
    assert comparison_headline(judged).endswith(": highest Judged@1 1.000 by a")
    for table in (comparison_means_table(judged, None), paper_table(judged)):
        marks = {column.full_title: table.rows[0][at].marks for at, column in enumerate(table.columns)}
        assert [name for name, found in marks.items() if "best" in found] == [name for name in marks if "RR" in name]


def test_a_mark_says_whether_a_run_is_better_or_worse(make: Make) -> None:
    evaluation, _ = three(make)
    table = comparison_means_table(evaluation, compare(evaluation.scores, "best"))
    assert [row[2].marks for row in table.rows] == [("best",), ("nominally-worse",), ("worse",)]


def test_figures_of_parts_say_so(make: Make) -> None:
    """Of 26 runs a figure shows 24, and of their 325 pairs the 25 with the best run."""
    runs = {f"r{n:02}": [GOOD] * (n % 12) + [BAD] * (12 - n % 12) for n in range(26)}
    evaluation, _, _ = make(**runs)
    report = report_of(evaluation, compare(evaluation.scores, measures=["RR"]))
    figures = {block.id: block.caption for block in report.blocks() if isinstance(block, Figure)}
    assert figures["distribution"] == "MRR′ over topics, the best 24 of 26 runs; the table has all"
    assert figures["differences"].startswith(
        "Mean differences in MRR′ from r11, the best run, 25 of 325 pairs; the table"
    )
    (drawn,) = (block.svg for block in report.blocks() if isinstance(block, Figure) and block.id == "differences")
    assert "r00: −0.458 [" in drawn and re.findall(r">(r\d\d)</text>", drawn)[-1] == "r00"
    assert len(tables(report)["groups"].rows) == 26
    assert "No figure of all pairs: 26 runs, drawn up to 24." in tables(report)["groups"].notes
    (said,) = words(report_of(evaluation, compare(evaluation.scores, "r00")), "Significance groups")
    assert said.startswith("Not computed: 26 runs have more pairs than are tested unasked")


def test_every_topic_is_shown(make: Make) -> None:
    evaluation, comparison = three(make)
    table = tables(report_of(evaluation, comparison))["topics-mine"]
    head, *rows = grid(table)
    assert head == ["topic", "title", "base", "best", "some"]
    assert len(rows) == 12
    assert rows[0] == ["T00", "title T00", "0.500", "1.000", "1.000"]
    assert rows[11] == ["T11", "title T11", "0.500", "0.000", "0.500"]
    assert [cell.marks for cell in table.rows[0][2:]] == [(), ("best",), ("best",)]


def test_ties_and_counts_are_told(make: Make) -> None:
    evaluation, _, _ = make(clear=[GOOD] * 12)
    tied = Run.from_dict("tied", {t: {"good": 1.0, "bad": 1.0} for t in TOPICS[:3]})
    both = evaluate(task("mine"), tied)
    report = report_of(both, None)
    lines = words(report, "Limitations")
    assert lines == ["The order of tied results changes 2 means."]
    assert grid(tables(report)["ties"])[1:] == [
        ["tied", "MRR′", "0.1250", "0.2500"],
        ["tied", "P′@1", "0.0000", "0.2500"],
    ]
    equal = replace(both, bounds={"tied": {"RR": (0.21600001, 0.21600002), "P@1": (0.0, 0.25)}})
    assert words(report_of(equal, None), "Limitations") == [
        "The order of tied results changes 1 mean, and 1 more mean by less than 0.0001."
    ]
    assert len(tables(report_of(equal, None))["ties"].rows) == 1
    counts = tables(report)["counts"]
    found = dict(zip(*grid(counts), strict=True))
    assert found["results"] == "6"
    assert found["tied results"] == "6"
    assert found["topics missing"] == "9"
    assert words(report_of(evaluation, None), "Limitations") == ["The order of tied results changes no mean."]


def test_runs_without_two_common_topics_are_not_grouped(make: Make) -> None:
    evaluation, _, runs = make(early=[GOOD] * 6 + [None] * 6, late=[None] * 6 + [GOOD] * 6)
    answered = task("mine", protocol="arqmath-task1-answered")
    report = report_of(evaluate(answered, *runs), None)
    assert "groups" not in tables(report)
    assert "groups" in tables(report_of(evaluation, None))


# Parts


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "undefined"), (0.0, "<.0001"), (0.00009999, "<.0001"), (0.0001, "0.0001"), (0.05, "0.0500"), (1, "1.0000")],
)
def test_p_values(p: float | None, text: str) -> None:
    cell = shown_p(p)
    assert (cell.text, cell.value) == (text, p)


def test_long_titles_are_cut(make: Make) -> None:
    evaluation, _, _ = make(base=[BAD] * 12)
    scores: Scores = evaluation.scores[0]
    topic = evaluation.task.topics.by_id()["T00"]
    for length, shown in ((90, 90), (91, 90), (500, 90)):
        title = "x" * length
        table = per_topic_table("mine", {"base": scores}, {"T00": replace(topic, title=title)})
        text = table.rows[0][1].text
        assert len(text) == shown
        assert (text == title) == (length <= 90)
        assert text.endswith("…") == (length > 90)
    assert table.rows[1][1].text == ""


def letters(report: Report) -> dict[str, str]:
    return {row[0].text: row[2].text for row in tables(report)["groups"].rows}


NEAR = [GOOD] * 9 + [BAD] * 3
FAR = [GOOD] * 2 + [BAD] * 10


@pytest.mark.parametrize(("family", "apart"), [(None, True), (60, False)])
def test_letters_use_the_family_and_the_correction_of_the_tests(make: Make, family: int | None, *, apart: bool) -> None:
    """All pairs are tested: letters and marks say the same of every pair, whatever the family that was declared."""
    evaluation, _, _ = make(near=NEAR, far=FAR, base=[BAD] * 12)
    comparison = compare_runs(evaluation, family=family)
    report = report_of(evaluation, comparison)
    found = letters(report)
    told = {row.a + row.b: row.significant_bonferroni for row in comparison.rows if row.measure == "RR"}
    assert {
        a + b: not set(found[a]) & set(found[b]) for a, b in (("near", "far"), ("near", "base"), ("far", "base"))
    } == told
    assert told["nearfar"] == apart
    assert f"a family of {family or 6} tests" in tables(report)["groups"].notes[0]
    assert "Bonferroni's correction" in tables(report)["groups"].notes[0]


def test_letters_beside_a_baseline_add_the_other_pairs_to_its_family(make: Make) -> None:
    evaluation, _, _ = make(near=NEAR, far=FAR, base=[BAD] * 12)
    both = compare_runs(evaluation, baseline="base")  # two pairs in two measures, and the third pair is in neither
    (note,) = tables(report_of(evaluation, both))["groups"].notes
    assert "a family of 5 tests, 3 of them shown" in note
    assert "The family: the 4 tests of the means and 1 more pair; a difference that" in note
    against = compare_runs(evaluation, baseline="base", measures=["RR"])  # two tests, and there are three pairs
    assert "a family of 3 tests" in tables(report_of(evaluation, against))["groups"].notes[0]
    wide = compare_runs(evaluation, baseline="base", family=60, test="randomization", alpha=0.01)
    (note,) = tables(report_of(evaluation, wide))["groups"].notes
    assert "paired randomization test, alpha 0.01" in note
    assert "a family of 60 tests" in note
    assert len(set(letters(report_of(evaluation, wide)).values())) == 1
    assert len(set(letters(report_of(evaluation, against)).values())) > 1


def test_topics_of_one_cluster_are_one_in_tests_and_letters(make: Make) -> None:
    evaluation, _, _ = make(near=NEAR, far=FAR)
    collection = evaluation.task.collection
    clustered = replace(collection, cluster="kind of topic")
    found = replace(evaluation, task=replace(evaluation.task, collection=clustered))
    comparison = compare_runs(found)
    assert {row.n for row in comparison.rows} == {2}
    assert comparison.correction.endswith(
        "means are over topics; those that share their kind of topic are dependent: errors are cluster-robust, "
        "n counts by kind of topic"
    )
    assert comparison.correction in tables(report_of(found, comparison))["groups"].notes[0]
    assert letters(report_of(evaluation, None)) == {"near": "a", "far": "b"}
    assert letters(report_of(found, None)) == {"near": "a", "far": "a"}
    one = replace(collection, cluster="one")
    shared = Topics(tuple(replace(topic, attributes={"one": "1"}) for topic in collection.topics()))
    vars(one)["_topics"] = shared
    assert "groups" not in tables(report_of(replace(evaluation, task=replace(evaluation.task, collection=one)), None))
