"""Values that two papers print for one run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from paper_tools import Tiny, grid, report_of, table_of
from refusals import refusal as message

from harness.io import config
from harness.papers.map import paper_rows
from harness.papers.paper import load_paper, paper_names


@pytest.mark.slow
def test_values_that_two_papers_print_for_one_run_stand_side_by_side() -> None:
    for key, first, second in (("mirmu-msm", "0.511", "0.504"), ("mathamr-plus", "0.504", "0.511")):
        rows = grid(table_of(report_of(key), "twice"))[1:]
        (found,) = (row for row in rows if row[2] == "nDCG′ arqmath-3" and "msm 1" in row[0] + row[1])
        assert found[3:5] == [first, second]
        assert found[0].startswith(f"{key}, Table ")
        assert not found[1].startswith(f"{key}, ")


def test_papers_agree_on_what_they_print_twice() -> None:
    pairs = {
        (here.paper, there.paper, here, there)
        for key in paper_names()
        for here, there in load_paper(key).twice
        if here.paper != there.paper
    }
    assert len(pairs) == 12
    assert pairs == {(second, first, there, here) for first, second, here, there in pairs}


def test_rows_of_one_run_are_one_over_a_chain_of_pairs() -> None:
    paper = load_paper("mathamr-plus")
    cells = {cell.system: cell for cell in paper.cells if cell.table == "4.21"}
    first, second, third, other = list(cells.values())[:4]
    found = paper_rows(replace(paper, same_run=((first, second), (second, third))))
    names = [found["4.21", cell.system].name for cell in (first, second, third, other)]
    assert names[0] == names[1] == names[2] != names[3]


def test_only_values_that_differ_are_shown(tiny: Tiny) -> None:
    entries = [
        {"here": {"table": "1", "system": "Base", "group": "ours"}, "there": {"table": "1", "system": "Short"}},
        {"here": {"table": "1", "system": "Base"}, "there": {"table": "1", "system": "Base"}},
    ]
    table = table_of(report_of(tiny(yaml.safe_dump({"printed_twice": entries}))), "twice")
    assert grid(table)[1:] == [
        ["tiny, Table 1, ours, Base", "tiny, Table 1, ours, Short", "p2 c1", "0.50", "0.52", "-0.02"],
        ["tiny, Table 1, ours, Base", "tiny, Table 1, ours, Short", "rr c1", "0.83", "0.60", "0.23"],
    ]
    assert table.notes == ("Values as published; 4 further values that are published twice agree.",)


BASE = "{table: 1, system: Base}"
UNSHARED = "{'table': 1, 'system': 'Base'} and {'table': 1, 'system': 'Absnt'} share no measure on a collection"


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (f"here: {BASE}", "key 'there' is missing"),
        (f"here: {BASE}, there: {{table: 1, system: Base, sytem: Base}}", "there: key 'sytem' is unknown"),
        (f"here: {{table: 1}}, there: {BASE}", "here: key 'system' is missing"),
        (
            f"here: {BASE}, there: {{paper: crosmath, table: 1, system: Base}}",
            "paper 'crosmath' is unknown; did you me",
        ),
        (f"here: {BASE}, there: {{table: 1, system: Absnt}}", UNSHARED),
    ],
)
def test_faults_of_what_is_printed_twice(tiny: Tiny, entry: str, fault: str) -> None:
    key = tiny(f"printed_twice: [{{{entry}}}]\n")
    where = f"{config.names('paper')[key]}: printed_twice: "
    assert message(lambda: load_paper(key)).startswith(where + fault)
