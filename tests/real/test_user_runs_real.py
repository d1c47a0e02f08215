"""Runs brought for the rows of published tables: archived ones under other names, altered ones, and made-up ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import yaml

from harness.collections.load import load_collection
from harness.data.trec import read_run
from harness.papers.paper import load_paper
from harness.papers.reproduce import recompute_paper
from harness.papers.user_runs import bring
from harness.sources.fetch import fetch_resources

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]


def made_up(path: Path, collection: str, seed: int, most: int = 15) -> Path:
    """Some judged documents of each topic in an order that means nothing."""
    draw = random.Random(seed)
    judged = load_collection(collection).qrels().to_dict()
    ranked = {topic: draw.sample(sorted(docs), min(most, len(docs))) for topic, docs in judged.items()}
    lines = [f"{t} Q0 {d} {n} {most - n} made+up\n" for t, docs in ranked.items() for n, d in enumerate(docs, 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


@pytest.mark.slow
def test_archived_runs_under_other_names_and_one_that_was_altered(tmp_path: Path) -> None:
    paper = load_paper("crossmath")
    chosen = {run.collection: run for run in paper.runs if run.name == "spa-NLLB-bi"}
    fetch_resources([run.file for run in chosen.values()])
    for collection, run in chosen.items():
        shutil.copyfile(run.file.cached, tmp_path / f"mine-{collection}.txt")
    altered = tmp_path / "mine-arqmath-2.txt"
    columns = [line.split() for line in altered.read_text().splitlines()]
    altered.write_text("".join(" ".join([*c[:4], str(-float(c[4])), c[5]]) + "\n" for c in columns))
    rows = {"spa / NLLB + Bi-encoder", "NLLB + Bi-encoder"}
    (at,) = {(cell.table, cell.system) for cell in paper.cells if cell.group == "spa" and cell.system in rows}
    tables = {at[0]: {at[1]: {collection: f"mine-{collection}.txt" for collection in chosen}}}
    (tmp_path / "map.yaml").write_text(yaml.safe_dump({"tables": tables}))
    found = recompute_paper(paper, brought=bring(paper, tmp_path, None))
    wrong = {
        (v.cell.table, v.cell.system, v.cell.collection, v.verdict) for v in found.verdicts if v.verdict != "exact"
    }
    assert wrong == {(*at, "arqmath-2", "differs")}
    assert sum(v.verdict == "differs" for v in found.verdicts) == 2
    assert found.files[str(altered)] == read_run(altered, name="x").sha256
    assert not {chosen["arqmath-2"].file.name} & found.files.keys()


@pytest.mark.parametrize(
    ("table", "row", "cells"),
    [
        ("4.6", "Both (OPT+SLT)", 4),
        ("4.19", "MSM / Ensemble RRF", 4),
        ("4.9", "Full hierarchy", 4),
        ("4.19", "Ours / MathAMR+", 8),  # with the values of a topic in appendix C.1.1
    ],
)
def test_a_made_up_run_of_mathamr_plus_differs(tmp_path: Path, table: str, row: str, cells: int) -> None:
    paper = load_paper("mathamr-plus")
    made_up(tmp_path / "x.run", "arqmath-3-task1", 1)
    (tmp_path / "map.yaml").write_text(yaml.safe_dump({"tables": {table: {row: {"arqmath-3": "x.run"}}}}))
    found = recompute_paper(paper, brought=bring(paper, tmp_path, None))
    changed = [v for v in found.verdicts if v.value is not None]
    assert {v.verdict for v in changed} <= {"differs", "close", "exact"}
    assert [(v.cell.table, v.n) for v in changed] == [(table, 78)] * 4 + [("appendix C.1.1", 1)] * (cells - 4)
    assert found.count("needs") + found.count("blocked") == len(paper.cells) - cells
