"""What experiments with MathAMR+ have besides: printed values beside those here, and heat maps."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.experiment import load_experiment
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.task import task
from harness.io import config
from harness.papers.mathamr import thesis
from harness.papers.paper import load_paper
from harness.render.charts import heat_map
from harness.render.model import Figure, Prose, Table
from harness.store import cost, sidecar

CONFIG = load_paper(thesis.PAPER).config
EXPERIMENTS = CONFIG.experiments
REMARKS = {table: " ".join(lines) for table, lines in CONFIG.table_notes.items()}
VALUES = {"42": 0.30, "43": 0.36, "44": 0.33, "45": 0.33, "46": 0.33}


def results(name: str, scale: str = "full") -> ExperimentResults:
    """Every cell with one value for all topics and measures, by its seed; those of formulas `None` are not there."""
    plan = load_experiment(name)
    side = {cost.EPOCHS: [2.0, 4.0], cost.PARAMETERS: 2_523_000}
    mini = task("mini-task1", measures=list(plan.measures))
    outcomes = []
    for cell in plan.cells():
        if cell.labels[0] == "SLT-only":
            outcomes.append(Outcome(cell, {}, reason="nothing"))
            continue
        value = VALUES[cell.seed or "42"] + 0.1 * (cell.labels[0] == "None")
        scores = mini.scorer(Run.from_dict("r", mini.scorer.qrels.to_dict()))
        scores = replace(scores, values=scores.values * 0 + value)
        outcomes.append(Outcome(cell, {}, task=mini, scores=scores, run=Path(f"nowhere/{cell.seed}.run"), costs=side))
    return ExperimentResults(name, plan, tuple(outcomes), scale=scale)


def test_printed_values_stand_beside_those_here() -> None:
    (section,) = thesis.published_value_sections(results("mathamr-formulas"))
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    rows = {(row[0].text, row[1].text, row[2].text): [cell.text for cell in row[3:]] for row in table.rows}
    full = "full scale, CPU"
    best, mean = max(VALUES.values()), statistics.mean(VALUES.values())
    spread = statistics.stdev(VALUES.values())
    assert rows["4.6", "Both (OPT+SLT)", "nDCG′"] == ["0.497", "best seed", f"{best:.3f}", "", "5", full]
    assert rows["4.7", "None", "MAP′"] == ["0.098", "mean", f"{mean + 0.1:.3f}", f"{spread:.3f}", "5", full]
    assert rows["4.6", "SLT-only", "Bpref"] == ["0.213", "best seed", "n/a", "", "0", full]
    # Seconds of epochs are of the side files; no run says how large its index is, and none was on a GPU.
    assert rows["4.8", "OPT-only", "epoch, s"] == ["362.4", "mean", "3.0", "", "5", full]
    assert rows["4.8", "None", "index, MB"] == ["58.3", "run", "n/a", "", "5", full]
    assert len(rows) == 2 * 4 * 4 + 2 * 4
    assert any(note.startswith("map_prime: the thesis prints AP over the relevant documents") for note in table.notes)
    assert any("None of them is a reproduction" in note for note in table.notes)


def test_a_scale_is_said_with_the_values() -> None:
    (section,) = thesis.published_value_sections(results("mathamr-formulas", "here"))
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    said = "Scaled down: dependency graphs in place of AMR; 7,000 pairs of mse-pages and MATH"
    assert table.notes[0].startswith(said)


@pytest.mark.slow
def test_notes_of_cells_are_shown_once() -> None:
    said = _remarks("mathamr-loss")
    assert "4.17, β = 1: HNSW; k = 1000" in said
    assert any(line.startswith("4.17: The text has re-ranking gain 0.079") for line in said)
    assert len(set(said)) == len(said)
    assert thesis.published_value_sections(replace(results("mathamr-formulas"), name="mini")) == []


@pytest.mark.slow
def test_where_the_thesis_contradicts_itself_is_said_at_each_of_its_tables() -> None:
    """What two tables print differently stands with both; each remark is of a table that some experiment has."""
    assert set(REMARKS) <= {table for tables in EXPERIMENTS.values() for table in tables}
    printed = {name: [line for line in _remarks(name) if line.partition(":")[0] in REMARKS] for name in EXPERIMENTS}
    of = {
        ".454 in 4.15": {"mathamr-formulas", "mathamr-structure", "mathamr-edges", "mathamr-strategy"},
        "the machine is not specified": {"mathamr-formulas", "mathamr-edges", "mathamr-initialisation"},
        "four times the bases": {"mathamr-initialisation", "mathamr-benchmark"},
        "by 0.012": {"mathamr-strategy"},
    }
    for said, names in of.items():
        assert {name for name, lines in printed.items() if any(said in line for line in lines)} == names
    # Of the best seeds: .203 and .191, which are those of 4.15 and not the means of 4.16.
    cells = [cell for cell in load_paper("mathamr-plus").cells if (cell.metric, cell.group) == ("p10_prime", "HNSW")]
    values = {(cell.table, cell.system): cell.value for cell in cells}
    (table,) = [name for name, line in REMARKS.items() if "by 0.012" in line]
    of_table = [float(values[table, f"Doc-VN + MaxSim (k = {k})"]) for k in (5000, 1000)]
    assert round(of_table[0] - of_table[1], 3) == 0.012


def _remarks(name: str) -> tuple[str, ...]:
    (section,) = thesis.published_value_sections(results(name))
    return tuple(line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs)


def test_every_printed_row_of_effectiveness_has_its_row() -> None:
    """With the costs; but other teams' systems, whose runs are brought to the paper's report."""
    scored = load_paper(thesis.PAPER).scored
    assert scored is not None
    for name, tables in EXPERIMENTS.items():
        plan = load_experiment(name)
        outcomes = tuple(Outcome(each, {}, reason="not run") for each in plan.cells())
        for cell in load_paper("mathamr-plus").cells:
            if cell.table not in tables:
                continue
            assert cell.metric in CONFIG.costs or cell.metric in scored.measures
            if cell.table in ("4.19", "4.21") and not cell.system.startswith("Ours"):
                continue
            places = [row for _, _, row in thesis._matching_rows(ExperimentResults(name, plan, outcomes), [cell])]
            assert len(places) == 1, (cell.table, cell.system, cell.group)


def test_experiments_hold_together() -> None:
    """Each loads, with its family; what scale `here` changes is said."""
    names = [name for name in config.names("experiment") if name.startswith("mathamr-")]
    assert set(EXPERIMENTS) < set(names)
    for name in (*names, "learning-curve"):
        plan = load_experiment(name)
        assert plan.family == plan.tests
        assert {"epoch", "parameters", "vectors", "latency", "rate"} <= set(plan.costs)
        if name in EXPERIMENTS:
            assert plan.scale["here"].changes
            assert plan.scale["here"].seeds


def test_the_learning_curve_has_three_seeds_at_each_end() -> None:
    plan = load_experiment("learning-curve")
    assert plan.numeric == ("pairs",)
    seeds: dict[str, list[str | None]] = {}
    for cell in plan.cells():
        seeds.setdefault(cell.labels[1], []).append(cell.seed)
    assert seeds == {"1000": ["1", "2", "3"], "2500": [None], "5000": [None], "10000": [None], "19000": ["1", "2", "3"]}


# ---- heat maps ------------------------------------------------------------------------------------------------------

NOTED = {"topic": "A.301", "document": "7", "rows": ["F1", "D"], "columns": ["S1", "D"], "values": [[0.5, -1], [1, 0]]}


def test_heat_maps_are_of_the_first_seed_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def costs(path: Path) -> dict[str, object]:
        asked.append(path.name)
        return {"similarities of vectors": [NOTED]} if path.name.startswith(("42", "43")) else {}

    monkeypatch.setattr(sidecar, "costs", costs)
    (section,) = thesis.heat_map_sections(results("mathamr-edges"))
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    spread = statistics.pstdev([0.5, -1, 1, 0])
    said = f"topic A.301 and document 7; standard deviation {spread:.3f}"
    rows = ("None", "Sequential", "Circular", "Fully Connected")
    assert [figure.caption for figure in figures] == [f"{row}: {said}" for row in rows]
    table = figures[0].table
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [["F1", "0.500", "-1.000"], ["D", "1.000", "0.000"]]
    monkeypatch.setattr(sidecar, "costs", lambda path: {})
    assert thesis.heat_map_sections(results("mathamr-edges")) == []


def test_a_heat_map_is_a_drawing_of_all_values() -> None:
    drawing = heat_map(["a<b", "c"], ["d", "e", "f"], [[0, 0.5, 1], [0.25, float("nan"), 0.75]], "Some & others")
    root = ElementTree.fromstring(drawing)  # noqa: S314 - our own
    paths = [each.get("d") or "" for each in root.iter() if each.tag.endswith("path")]
    assert sum(path.count("z") for path in paths) == 5  # what is no number is left blank
    assert "from 0.00 to 1.00, 2 rows and 3 columns" in drawing
    assert [float(text) for text in re.findall(r">([0-9.]+)</text>", drawing)] == [0, 0.5, 1, 0.25, 0.75]
    assert heat_map(["a"], ["b"], [[0.3]], "One")
    numbers = [f"{column / 10}" for column in range(40)]  # of which every third has room
    narrow = re.findall(r">([^<>]+)</text>", heat_map(["0"], numbers, [[*range(40)]], "Many", axes=("b", "k1")))
    assert narrow[:3] == ["b", "k1", "0"] and narrow[3:17] == numbers[::3]
    for rows, values in (([], []), (["a"], [[1.0, 2.0]]), (["a", "b"], [[1.0]])):
        with pytest.raises(HarnessError):
            heat_map(rows, ["b"], values, "Wrong")
