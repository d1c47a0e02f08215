from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paper_tools import Tiny, grid, report_of

from harness.papers.cells import HEADER
from harness.papers.paper import load_paper
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.render.model import Facts, Prose, Table
from harness.render.write import Report
from harness.store.provenance import provenance

HEAD = ",".join(HEADER) + "\n"
BREAKDOWN = """breakdown:
  title: RR by difficulty
  attribute: difficulty
  values: [Low, High]
  measure: RR
  runs: [base-run, short-run]
"""


def tables(report: Report) -> dict[str, Table]:
    return {table.id: table for table in report.tables()}


def words(report: Report, title: str) -> list[str]:
    """The paragraphs of a section."""
    (section,) = (section for section in report.sections if section.title == title)
    return [line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs]


def test_the_outcome(tiny: Tiny) -> None:
    report = report_of(tiny("remarks: [The first thing., The second thing.]\n"))
    assert report.title == "A tiny paper"
    assert report.headline == (
        "tiny: 3 of 8 table cells exact, 1 of 1 values of its text exact, "
        "1 close, 1 differs, 2 need a resource, 1 blocked"
    )
    assert grid(tables(report)["verdicts"]) == [
        ["verdict", "cells", "meaning"],
        ["exact", "4", "rounds to the printed digits"],
        ["close", "1", "within two units of the last printed digit"],
        ["differs", "1", "more than two units away"],
        ["needs", "2", "needs a missing resource; see the cause"],
        ["blocked", "1", "cannot be recomputed, because a resource is not available anywhere; see the cause"],
    ]
    assert words(report, "Outcome") == [
        "Details that the paper omits and that reproduce its numbers:",
        "The first thing.",
        "The second thing.",
    ]
    assert grid(tables(report)["not-recomputed"]) == [
        ["tables", "values", "state", "cause"],
        ["1", "2", "needs", "an archived run"],
        ["2", "1", "blocked", "times of another machine"],
    ]
    assert "table-2" not in tables(report)
    assert tables(report)["not-recomputed"].notes == ("map: the paper divides by something else.",)


def test_no_detail_reproduces_numbers_where_none_was_recomputed(tiny: Tiny) -> None:
    found = recompute_paper(load_paper(tiny("remarks: [The first thing.]\n")))
    lost = tuple(replace(verdict, value=None, verdict="needs") for verdict in found.verdicts)
    nothing = replace(found, scores={}, scorers={}, rankings={}, topics={}, also={}, bounds={}, verdicts=lost)
    report = paper_report(nothing, provenance({}, ["harness"]))
    assert report.headline.startswith("None of the ")
    assert words(report, "Outcome")[0] == "Details that the paper omits:"


def test_a_table_as_the_paper_prints_it(tiny: Tiny) -> None:
    report = report_of(tiny())
    table = tables(report)["table-1"]
    assert (table.label, table.caption) == ("Table 1 of the paper", "Main results")
    # As printed, and beside it what was recomputed, with two digits more.
    heads = [
        f"{measure} / {whose}" for measure in ("p2, c1", "rr, c1", "rr, c2", "map, c1") for whose in ("paper", "here")
    ]
    assert grid(table) == [
        ["group", "system", *heads],
        ["ours", "Base", "0.50", "0.5000", "0.83", "0.8333", "0.667", "0.66667", "0.70", ""],
        ["ours", "Short", "0.52", "0.5000", "0.60", "0.6667", "", "", "", ""],
        ["theirs", "Absent", "0.40", "", "", "", "", "", "", ""],
    ]
    assert {cell.marks for row in table.rows for cell in row[2::2]} == {()}
    marks = [[cell.marks for cell in row[3::2]] for row in table.rows]
    assert marks == [
        [("exact",), ("exact",), ("exact",), ("needs",)],
        [("close",), ("differs",), ("missing",), ("missing",)],
        [("needs",), ("missing",), ("missing",), ("missing",)],
    ]
    assert table.notes == (
        "Paper: as published; here: recomputed, with two more digits. "
        "tiny-1: edition first, protocol tiny, n = 3; tiny-2: edition first, protocol tiny, n = 3.",
    )
    values = [cell.value for cell in table.rows[0]]
    assert values[:2] == [None, None]
    assert values[2:] == [0.5, 0.5, 0.83, pytest.approx(5 / 6), 0.667, pytest.approx(2 / 3), 0.7, None]


def test_addresses_of_a_paper_stand_in_its_outcome(tiny: Tiny) -> None:
    extra = "url: https://example.org/paper\ndoi: 10.1000/182\ncode: https://example.org/code\n"
    (facts,) = (block for block in report_of(tiny(extra)).sections[0].blocks if isinstance(block, Facts))
    assert facts.items == (
        ("paper", "https://example.org/paper"),
        ("DOI", "https://doi.org/10.1000/182"),
        ("code", "https://example.org/code"),
    )


def test_a_value_of_the_text(tiny: Tiny) -> None:
    table = tables(report_of(tiny()))["table-text"]
    assert (table.label, table.caption) == ("Text of the paper", "An example")
    assert grid(table) == [["system", "rr / paper", "rr / here"], ["Tied", "0.5", "0.500"]]
    assert table.notes == (
        "Paper: as published; here: recomputed, with two more digits. tiny-1: edition first, protocol tiny, n = 1.",
        "The topic is not printed; T1 fits.",
    )


def test_the_baseline_and_significance_are_marked(tiny: Tiny) -> None:
    names = [f"T{n}" for n in range(12)]
    printed = (("Base", "0.5", 1), ("Short", "0.9", 0), ("Tied", "0.7", 0))
    rows = [f"{system},ours,c1,,,rr,single,{value},,,{baseline}," for system, value, baseline in printed]
    good, bad = "{t} Q0 good 1 2 x\n{t} Q0 bad 2 1 x\n", "{t} Q0 bad 1 2 x\n{t} Q0 good 2 1 x\n"
    files = {
        "qrels1.txt": "".join(f"{t} 0 good 1\n{t} 0 bad 0\n" for t in names),
        "topics1.jsonl": "".join(f'{{"id": "{t}", "title": "x"}}\n' for t in names),
        # Differences in RR: .5 on 11 topics and -.5 on one (p .0004); .5 on four topics and 0 on eight (p .039).
        "runs/base_1.txt": "".join(bad.format(t=t) for t in names),
        "runs/short_1.txt": "".join(good.format(t=t) for t in names[1:]),
        "runs/tied_1.txt": "".join((good if n < 4 else bad).format(t=t) for n, t in enumerate(names)),
        "cells.csv": HEAD + "".join(f"tiny,1,Main,{row}\n" for row in rows),
    }
    key = tiny("baselines: {run: base-run}\n", files)
    report = report_of(key)
    table = tables(report)["table-1"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Base", "0.5", "0.500"],
        ["Short", "0.9", "0.917"],
        ["Tied", "0.7", "0.667"],
    ]
    assert [row[2].marks[1:] for row in table.rows] == [("baseline",), ("better",), ("nominally-better",)]
    assert words(report, "Published tables")[0] == (  # once, before the tables
        "Marks of significance: two-sided paired t-test against the baseline (base-run for runs that end in 'run'), "
        "alpha 0.05, Bonferroni over all runs with that ending and all measures within a collection."
    )
    report = report_of(key, alpha=0.01)
    strict = tables(report)["table-1"]
    assert [row[2].marks[1:] for row in strict.rows] == [("baseline",), ("better",), ()]
    assert "alpha 0.01," in words(report, "Published tables")[0]


def test_translations_and_breakdown(tiny: Tiny) -> None:
    extra = BREAKDOWN + (
        "module: harness.papers.crossmath.report\n"
        "translations:\n  source: tiny\n  english: eng.tsv\n  languages: {ours: {title: Our, path: ours.tsv}}\n"
    )
    files = {
        "eng.tsv": "T1\tt\tprove\tx\nT2\tt\tfind $a$ and $b$ and $c$\tx\nT3\tt\tshow\tx\n",
        "ours.tsv": "T1\tt\tprove\tx\nT2\tt\tnajdi $b$ i $d$\tx\n",
    }
    report = report_of(tiny(extra, files))
    (heads, row) = grid(tables(report)["translations"])
    assert heads[:4] == ["language", "judged topics", "topics missing", "bodies in English"]
    assert heads[4:8] == [f"formulas / {what}" for what in ("in English", "lost", "changed", "added")]
    assert heads[8:] == ["topics with other formulas"]
    assert row == ["Our (ours)", "3", "1", "1", "3", "1", "1", "0", "1"]
    found = words(report, "Check of translated topics")
    assert any(line.startswith("1 of the 3 Our topics") for line in found)
    assert found[-1] == (
        "For these languages, a claim of no significant difference from English says little about translation."
    )
    # Beside the tables of that language too.
    assert any(note.startswith("1 of the 3 Our topics") for note in tables(report)["table-1"].notes)
    assert grid(tables(report)["breakdown"]) == [
        ["difficulty", "n", "base-run", "short-run"],
        ["Low", "2", "1.000", "1.000"],
        ["High", "1", "0.500", "0.000"],
    ]
    assert tables(report)["breakdown"].notes == ("Labels exist for 3 of the 3 topics of c1; c2 has none.",)


def test_the_same_runs_under_another_protocol(tiny: Tiny) -> None:
    report = report_of(tiny("also: [trec_eval]\n"))
    assert words(report, "The same runs under trec_eval") is not None
    table = tables(report)["also-trec-eval"]
    heads = [column.full_title for column in table.columns]
    assert heads[0] == "run"
    assert "c1 / MAP" in heads
    place = heads.index("c1 / P@10")
    assert {row[0].text: row[place].text for row in table.rows} == {
        "base-run": "0.133",  # 2, 1 and 1 of 10
        "short-run": "0.100",  # 2, 1 and 0 of 10
        "tied-run": "0.100",
    }
    assert [row[0].text for row in table.rows if "best" in row[place].marks] == ["base-run"]
    assert table.notes == ("c1: edition first, n = 3; c2: edition first, n = 3.",)


def test_every_topic_is_shown(tiny: Tiny) -> None:
    table = tables(report_of(tiny()))["topics-c1"]
    assert grid(table) == [
        ["topic", "title", "base-run", "short-run", "tied-run"],
        ["T1", "one", "0.500", "1.000", "0.500"],
        ["T2", "two", "0.500", "0.500", "0.500"],
        ["T3", "three", "0.500", "0.000", "0.500"],
    ]
    assert table.caption == "P′@2 by topic, c1 (edition first)"
    assert [cell.marks for cell in table.rows[0][2:]] == [(), ("best",), ()]


def test_what_would_undermine_the_numbers_is_told(tiny: Tiny) -> None:
    wrong_rank = "T1 Q0 d1 1 1 x\nT1 Q0 d3 2 2 x\n"
    report = report_of(tiny(files={"runs/base_2.txt": wrong_rank.replace("T1", "U1").replace("d", "e")}))
    lines = words(report, "Limitations")
    assert lines[0] == "Protocol tiny: Tiny protocol."
    assert "Documents without a judgment are removed before scoring (prime)." in lines[1]
    assert "short-run on c1 lacks 1 of 3 topics: T3" in lines
    assert "base-run on c2 lacks 2 of 3 topics: U2, U3" in lines
    assert ["tied-run on c1", "MRR′", "0.8333", "1.0000"] in grid(tables(report)["ties"])
    assert any("rank 2 of topic 'U1' has a higher score than the rank before it" in line for line in lines)
    assert not any("P′@2 lies between" in line for line in lines)


def test_where_all_is_well_that_is_told(tiny: Tiny) -> None:
    whole = {
        "runs/short_1.txt": "T1 Q0 d1 1 3 x\nT2 Q0 d4 1 2 x\nT3 Q0 d6 1 2 x\n",
        "runs/tied_1.txt": "T1 Q0 d1 1 1 x\nT1 Q0 d3 2 1 x\nT2 Q0 d4 1 2 x\nT3 Q0 d6 1 2 x\n",
    }
    report = report_of(tiny(files={**whole, "cells.csv": HEAD + "tiny,1,Main,Short,ours,c1,,,rr,single,1.0,,,0,\n"}))
    assert report.headline == "tiny: 1 of 1 table cells exact"
    assert words(report, "Limitations")[2:] == [
        "Every run answers every topic.",
        "1 topic of c2 without a relevant document: binary measures are 0 there for every run.",
        "The order of tied results changes no mean.",
        "Reading the run files gave no warnings.",
    ]
    assert "not-recomputed" not in tables(report)
    assert not [each for each in report.sections if "claims" in each.title or "translated" in each.title]


@pytest.mark.slow
def test_a_paper_of_which_nothing_can_be_recomputed() -> None:
    report = report_of("mirmu-msm")
    sections = ["Outcome", "Claims of the paper", "Contradictory published values", "Available rows"]
    assert [section.title for section in report.sections] == [*sections, "Cost of the missing numbers", "Provenance"]
    assert report.headline == "None of the 295 published values was recomputed"
    assert {mark for table in report.tables() for row in table.rows for cell in row for mark in cell.marks} == set()
    rows = tables(report)["not-recomputed"].rows
    assert {row[2].text for row in rows} == {"needs"}  # a line for each set of models, runs and corpora
    assert {"2, 3", "3", "3, figure 2"} == {row[0].text for row in rows}
    assert sum(row[1].value or 0 for row in rows) == 295
    published = [cell.value for cell in load_paper("mirmu-msm").cells]
    verdicts: Any = report.data["verdicts"]
    assert [verdict["printed"] for verdict in verdicts] == published


def test_the_provenance_names_command_and_checksums(tiny: Tiny) -> None:
    report = report_of(tiny())
    found = {row[0].text: row[1].text for row in tables(report)["checksums"].rows}
    assert found == {file.name: file.sha256 for file in load_paper("tiny").files()}
    assert len(found) == 10


@pytest.mark.slow
def test_the_data_holds_verdicts_and_scores(tiny: Tiny, tmp_path: Path) -> None:
    report = report_of(tiny())
    written = report.write(tmp_path / "report")
    data = json.loads(written["json"].read_text())["data"]
    verdicts: list[dict[str, Any]] = data["verdicts"]
    assert len(verdicts) == 9
    place = {"table": "1", "group": "ours", "system": "Short", "collection": "c1", "slice": "", "metric": "rr"}
    made = {"run": "short-run", "edition": "first", "protocol": "tiny", "n": 3, "cause": ""}
    assert verdicts[3] == {**place, "printed": "0.60", "value": pytest.approx(2 / 3), "verdict": "differs", **made}
    assert verdicts[5]["value"] is None
    assert (verdicts[5]["verdict"], verdicts[5]["cause"]) == ("needs", "an archived run")
    assert {(score["collection"], score["run"]) for score in data["scores"]} == {
        (f"tiny-{n}", f"{name}-run") for n in (1, 2) for name in ("base", "short", "tied")
    }
