"""Numbers that are measured while a run is made, and rows whose runs are not made: another row's, other teams'."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from paper_tools import Tiny
from refusals import refusal as message

from harness.data.trec import Run
from harness.experiments import costs
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io import config
from harness.papers.cells import CellVerdict, judge
from harness.papers.experiment_runs import rows_to_bring
from harness.papers.map import fitting, paper_rows
from harness.papers.paper import load_paper, paper_names
from harness.papers.reproduce import recompute_paper
from harness.papers.steps import PrintedRow, paper_steps
from harness.papers.user_runs import Brought, BroughtRun, bring, rows_by_cell
from harness.rehearsal.run import write_submitted_runs
from harness.systems.build import load_system

QUERIES = "costs: {seconds: {column: latency, unit: 0.001}}\n"  # a median, in milliseconds


def seconds(key: str, path: Path, origin: str) -> CellVerdict:
    """The verdict on the cost of `Base` (printed: 12), if its run on `c1` is a file's."""
    paper = load_paper(key)
    run = Run.from_dict("base-run", {"T1": {"d1": 1.0}})
    brought = BroughtRun(paper_rows(paper)["1", "Base"], "c1", run, origin, str(path))  # type: ignore[arg-type]
    found = recompute_paper(paper, brought=Brought((brought,)))
    (verdict,) = (each for each in found.verdicts if each.cell.metric == "seconds")
    return verdict


@pytest.mark.slow
def test_a_cost_is_that_of_a_run_made_here(tiny: Tiny, tmp_path: Path) -> None:
    path = make(load_system("bm25"), task("mini-task1", "mini-answers"), runs=tmp_path / "runs").path
    key = tiny(QUERIES)
    here = seconds(key, path, "made here")
    median = costs.COLUMNS["latency"].of([costs.of_run(path)])
    assert median is not None
    assert here.value is not None
    assert here.value == pytest.approx(median * 1000)
    assert (here.verdict, here.measure, here.n) == (judge("12", here.value), "latency", 0)
    assert here.cause == "costs measured on this machine"
    assert (here.run, here.collection) == ("base-run", "tiny-1")
    # Of a run that somebody brings, or that says nothing, it is unknown.
    for where, origin in ((path, "brought"), (tmp_path / "none.run", "made here")):
        lacking = seconds(key, where, origin)
        assert (lacking.verdict, lacking.value) == ("needs", None)
        assert lacking.cause == "a run that was made here and says its latency"


@pytest.mark.parametrize(
    ("given", "fault"),
    [("{column: laten}", "key 'column' is 'laten'"), ("{column: latency, unit: 0}", "unit: expected a number above 0")],
)
def test_faults_of_costs(tiny: Tiny, given: str, fault: str) -> None:
    key = tiny(f"costs: {{seconds: {given}}}\n")
    where = config.names("paper")[key]
    assert message(lambda: load_paper(key)).startswith(f"{where}: costs: seconds: {fault}")


def test_every_cost_has_a_row_with_a_run() -> None:
    """Tables spell the labels of one row in several ways."""
    paper = load_paper("mathamr-plus")
    row = paper_rows(paper)["4.6", "None"]
    run = Run.from_dict(row.name, {"A.301": {"a": 1.0}})
    rows = rows_by_cell(paper, (BroughtRun(row, "arqmath-3", run, "made here", "x"),))
    found = {c.place for c in paper.cells if (c.table, c.group, c.system) in rows}
    assert {c.place for c in paper.cells if c.metric in paper.config.costs} <= found


def test_values_of_one_topic_are_of_the_run_that_another_row_names() -> None:
    known = paper_rows(load_paper("mathamr-plus"))
    same = {
        ("appendix C.1.1", "MathAMR+"): ("4.19", "Ours / MathAMR+"),
        ("appendix C.1.2", "MathAMR (baseline)"): ("4.19", "DPRL / QQ-QA-AMR"),
        ("appendix C.2.1", "MathAMR+"): ("4.21", "Ours / MathAMR+"),
        ("appendix C.2.2", "MathAMR (baseline)"): ("4.21", "DPRL / MathAMR ²"),
    }
    assert {at: known[at].name for at in same} == {at: known[there].name for at, there in same.items()}
    names = [row.name for at, row in known.items() if at not in same]
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.parametrize("key", paper_names())
def test_what_only_a_person_brings(key: str) -> None:
    """Rows whose runs other teams made; no row that has a command, and none that nobody has."""
    paper = load_paper(key)
    made, _ = paper_steps(paper, seeds=1)
    found = rows_to_bring(paper, made)
    expected = {"4.19": 5, "4.21": 8, "appendix C.2.2": 1} if key == "mathamr-plus" else {}
    assert Counter(row.table for row in found) == expected
    assert all(why.startswith("the submitted runs of ARQMath-3 (manual download") for why in found.values())
    if found:
        assert PrintedRow("4.19", "Approach0 / Struct.+ColBERT (Coco-MAE)") in found
        without = rows_to_bring(replace(paper, config=replace(paper.config, states={})), made)
        assert set(without) == set(found)


def test_stand_ins_for_runs_that_a_person_brings_are_recognised(tiny: Tiny, tmp_path: Path) -> None:
    paper = load_paper(tiny())
    rows = [PrintedRow("1", label) for label in ("Base", "Absent")]
    for place in ("one", "two"):
        write_submitted_runs(tmp_path / place, paper, rows, 1)
    fits, rest = fitting(paper, tmp_path / "one")
    expected = [("Absent", "c1"), ("Base", "c1"), ("Base", "c2")]
    assert (sorted((row.label, where) for row, where in fits.values()), rest) == (expected, [])
    for path in fits:
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
    brought = bring(paper, tmp_path / "one", None)
    values = [each.value for each in recompute_paper(paper, brought=brought).verdicts if each.cell.system == "Absent"]
    (value,) = values
    assert 0 < (value or 0) <= 1
