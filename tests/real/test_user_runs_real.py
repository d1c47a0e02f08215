"""Runs brought for the rows of published tables: archived ones under other names, altered ones, and made-up ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import yaml

from harness.collections.load import load_collection
from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.task import training_judgments
from harness.papers.paper import load_paper
from harness.papers.reproduce import recompute_paper
from harness.papers.user_runs import bring
from harness.sources.fetch import fetch_resources
from harness.systems.base import Request
from harness.systems.build import load_system

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


@pytest.mark.slow
def test_made_up_runs_of_mirmu_and_their_ensembles_differ(tmp_path: Path) -> None:
    paper = load_paper("mirmu-msm")
    names = {"mirmu 1": "mirmu 1: Base", "msm 4": "msm 4: tf-idf + BM25", "msm 5": "msm 5: Compubert"}
    files = {
        (name, year): made_up(tmp_path / f"arqmath-{year}" / f"{name}.run", f"arqmath-{year}-task1", 10 * n + year)
        for n, name in enumerate(names)
        for year in (1, 2)
    }
    brought = bring(paper, tmp_path, None)
    found = recompute_paper(paper, brought=brought)
    states = {(v.cell.system, v.cell.collection): v.verdict for v in found.verdicts}
    # CompuBERT's weights have to be brought; its run as well, all the same.
    for label in names.values():
        assert [states[label, f"arqmath-{year}"] for year in (1, 2, 3)] == ["differs", "differs", "needs"]
    fused = {(run.row.label, run.collection): run.run for run in brought.runs if run.origin == "fused"}
    pair = "of msm 4 and mirmu 1"
    assert set(fused) == {
        *((f"ens 6: ibc {pair}", f"arqmath-{year}") for year in (1, 2)),
        *(("ens 12: rrf 60 of msm 4 + mirmu 1", f"arqmath-{year}") for year in (1, 2)),
        *((f"ens 17: rbc {pair}", f"arqmath-{year}") for year in (1, 2)),  # each learns from the other year
        *((f"ens 22: wibc {pair}", f"arqmath-{year}") for year in (1, 2)),
    }
    # The same as the row's own command makes of the files.
    topics = {year: load_collection(f"arqmath-{year}-task1").topics() for year in (1, 2)}
    for year, other in ((2, 1), (1, 2)):
        for system, label in (("rrf", "ens 12: rrf 60 of msm 4 + mirmu 1"), ("rbc", f"ens 17: rbc {pair}")):
            runs, training = ([str(files[name, of]) for name in ("msm 4", "mirmu 1")] for of in (year, other))
            settings = {"runs": runs} | ({"training_runs": training} if system == "rbc" else {})
            judgments = training_judgments([f"arqmath-{other}-task1"])
            own = load_system(f"fusion-{system}", **settings)(Request(topics[year], None, tmp_path, judgments))
            assert own.to_dict() == fused[label, f"arqmath-{year}"].to_dict()
    assert set(topics[1].ids()) & set(topics[2].ids()) == set()
    causes = {
        v.cell.system: v.cause for v in found.verdicts if v.verdict == "needs" and v.cell.collection == "arqmath-1"
    }
    assert causes["ens 9: rrf 60 of all 4 msm"].startswith("the runs of msm 2, msm 3 on arqmath-1 (rehearsed at ")


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


def test_formulas_are_scored_by_a_map_of_keys(tmp_path: Path) -> None:
    paper = load_paper("mathamr-plus")
    judged = load_collection("arqmath-3-task2").qrels().to_dict()
    lines = [f"{t} Q0 f{d} {n} {99 - n} x\n" for t, docs in judged.items() for n, d in enumerate(sorted(docs)[:20], 1)]
    (tmp_path / "x.run").write_text("".join(lines))
    keys = "".join(f"f{doc}\t{doc}\n" for doc in sorted({doc for docs in judged.values() for doc in docs}))
    (tmp_path / "keys.tsv").write_text(f"formula\tvisual\n{keys}")
    row = next(cell.system for cell in paper.cells if cell.table == "4.21")
    content = {
        "tables": {"4.21": {row: {"arqmath-3": "x.run"}}},
        "keys": {"file": "keys.tsv", "id_column": "formula", "key_column": "visual"},
    }
    (tmp_path / "map.yaml").write_text(yaml.safe_dump({"tables": content["tables"]}))
    with pytest.raises(HarnessError, match=r"map\.yaml: key 'keys' is missing: protocol arqmath-task2"):
        bring(paper, tmp_path, None)
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(content))
    found = recompute_paper(paper, brought=bring(paper, tmp_path, None))
    (scores,) = found.scores.values()
    assert scores.protocol.name == "arqmath-task2"
    assert scores.counts["results without judgment"] == 0
    assert {v.verdict for v in found.verdicts if v.value is not None} == {"differs"}
