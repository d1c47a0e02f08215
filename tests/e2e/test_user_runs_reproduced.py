"""`harness reproduce paper=X brought=DIR` as a command: what is told, written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import Place, run_text

from harness.papers.cells import HEADER, KINDS

PAPER = """
key: own
title: A paper on the mini collection
state: "blocked: nobody has its runs"
scored:
  protocol: arqmath-task1
  measures: {ndcg: nDCG}
  collections: {c1: {collection: mini-task1, edition: official}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("conf/paper/own.yaml", PAPER)
    cells = [f"own,1,a table,{name},,c1,task1,,ndcg,single,0.9,,,0,\n" for name in ("first", "second")]
    made.write("conf/paper/cells/own.csv", ",".join(HEADER) + "\n" + "".join(cells))
    made.write("theirs/c1/First.run", run_text())
    return made


@pytest.mark.slow
def test_a_blocked_row_gets_a_verdict(place: Place) -> None:
    arguments = ("reproduce", "paper=own", "formats=[json,md]")
    assert place.good(*arguments).splitlines()[0] == "own: 0 of 2 table cells exact, 2 blocked"
    done = place.run(*arguments, "brought=theirs")
    assert (done.code, done.out.splitlines()[0]) == (0, "own: 0 of 2 table cells exact, 1 differs, 1 blocked")
    assert "theirs/map.yaml: written; 1 file was matched by its name" in done.err
    data = json.loads((place.here / "reports/own/report.json").read_text())["data"]
    assert [verdict["verdict"] for verdict in data["verdicts"]] == ["differs", "blocked"]
    assert {verdict["verdict"] for verdict in data["verdicts"]} <= set(KINDS)
    assert [(run["row"], run["source"]) for run in data["brought"]] == [("first", "theirs/c1/First.run")]
    page = (place.here / "reports/own/report.md").read_text()
    assert data["brought"][0]["sha256"] in page
    # The list calls what has no value as the report does.
    listed = next(line for line in place.good("list", "papers").splitlines() if line.startswith("own "))
    assert "blocked: nobody has its runs" in listed
