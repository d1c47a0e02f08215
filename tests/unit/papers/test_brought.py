"""Runs that a person brings for a paper's rows: the map, what it says wrongly, re-runs made here, and fusions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import table as case_table
from refusals import refuses

from harness.data.trec import Run, read_run
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import Task, task
from harness.papers.cells import HEADER, KINDS
from harness.papers.map import fitting, paper_rows
from harness.papers.paper import Paper, load_paper
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import PaperReproduction, recompute_paper
from harness.papers.user_runs import Brought, bring
from harness.render.formats import render_markdown
from harness.store import sidecar
from harness.store.provenance import provenance
from harness.systems.base import Request
from harness.systems.build import load_system

RUNS = Path(__file__).parents[3] / "runs" / "mini" / "mini-task1"
PAPER = """
key: own
title: A paper on the mini collection
state: "blocked: nobody has its runs"
scored:
  protocol: arqmath-task1
  measures: {ndcg: nDCG, p10: P@10}
  collections: {c1: {collection: mini-task1, edition: official}}
here: {corpus: mini-formulas, says: a small corpus}
available:
  corpus: mini-answers
  collections: {c1: mini-task1}
  without_numbers: ["0"]
  tables:
    "0":
      "official-name": {same_as: "one: overlap"}
    "1":
      "one: overlap": {system: overlap}
      "two: shuffle": {system: shuffle}
      "three": {state: "blocked: lost"}
      "both": {system: fusion-rrf, set: {k: 7}, inputs: ["one: overlap", "two: shuffle"]}
      "all": {system: fusion-rrf, inputs: ["one: overlap", "two: shuffle", "three"]}
"""
CELLS = (
    *(("1", "one: overlap", metric, "single", "") for metric in ("ndcg", "p10", "seconds")),
    *(("1", "one: overlap", "ndcg", "single", part) for part in ("M.3", "hard topics")),
    *(("1", system, "ndcg", "single", "") for system in ("two: shuffle", "three", "both", "all")),
    ("4.10", "seeds", "ndcg", "mean_2_seeds", ""),
    ("4.10", "other", "p10", "single", ""),
    ("5", "cost", "seconds", "single", ""),
)


@pytest.fixture
def own(conf: Callable[[str, str, str], Path]) -> Paper:
    path = conf("paper", "own", PAPER)
    (path.parent / "cells").mkdir()
    lines = [",".join(HEADER)]
    for table, system, metric, aggregate, part in CELLS:
        lines.append(f"own,{table},a table,{system},,c1,task1,{part},{metric},{aggregate},0.123,,,0,")
    (path.parent / "cells" / "own.csv").write_text("\n".join(lines) + "\n")
    return load_paper("own")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "brought"
    made.mkdir()
    for name in ("overlap", "shuffle", "overlap-title"):
        shutil.copyfile(RUNS / f"{name}.run", made / f"{name}.txt")
    return made


@pytest.fixture(scope="module")
def mini() -> Task:
    return task("mini-task1", "mini-answers", protocol="arqmath-task1")


def write(folder: Path, tables: object, **more: object) -> None:
    (folder / "map.yaml").write_text(yaml.safe_dump({"tables": tables, **more}, sort_keys=False))


def brought(
    paper: Paper, folder: Path | None, runs: Path | None = None
) -> tuple[PaperReproduction, Brought, list[str]]:
    said: list[str] = []
    found = bring(paper, folder, runs, said.append)
    return recompute_paper(paper, brought=found), found, said


def verdicts(found: PaperReproduction) -> dict[tuple[str, str, str], tuple[str, float | None]]:
    return {
        (v.cell.system, v.cell.metric, v.cell.slice): (v.verdict, None if v.value is None else round(v.value, 9))
        for v in found.verdicts
    }


def faults(paper: Paper, folder: Path) -> list[str]:
    with pytest.raises(HarnessError) as caught:
        bring(paper, folder, None)
    return [line.removeprefix(f"{folder / 'map.yaml'}: ") for line in caught.value.lines]


def test_rows_with_runs_get_verdicts_and_others_keep_their_states(own: Paper, folder: Path, mini: Task) -> None:
    write(folder, {1: {"one: overlap": {"c1": "overlap.txt"}, "three": {"c1": "shuffle.txt"}}})
    found, _, said = brought(own, folder)
    scores = mini.scorer(read("overlap"))
    row = scores.topics.index("M.3")
    got = verdicts(found)
    assert got["one: overlap", "ndcg", ""] == ("differs", round(scores.mean("nDCG"), 9))
    assert got["one: overlap", "p10", ""][1] == round(scores.mean("P@10"), 9)
    assert got["one: overlap", "ndcg", "M.3"][1] == round(float(scores.column("nDCG")[row]), 9)
    # Nobody says which topics these are, and seconds are not computed from runs.
    assert got["one: overlap", "ndcg", "hard topics"] == ("needs", None)
    assert got["one: overlap", "seconds", ""] == ("needs", None)
    # A row whose system is blocked: a run of it is a run.
    assert got["three", "ndcg", ""] == ("differs", round(mini.scorer(read("shuffle")).mean("nDCG"), 9))
    assert got["two: shuffle", "ndcg", ""][0] == "needs"
    assert got["cost", "seconds", ""] == ("blocked", None)
    assert said == []


def read(name: str) -> Run:
    return read_run(RUNS / f"{name}.run", name=name)


def test_without_runs_nothing_changes(own: Paper, tmp_path: Path) -> None:
    found, made, said = brought(own, None, tmp_path / "runs")
    assert (found, made, said) == (recompute_paper(own), Brought(), [])


def test_a_map_is_written_from_names_once(own: Paper, folder: Path) -> None:
    (folder / "C1").mkdir()
    (folder / "overlap.txt").rename(folder / "C1" / "Official_Name.run")
    (folder / "shuffle.txt").rename(folder / "two-shuffle_mini-task1.tsv.gz.txt")
    found, made, said = brought(own, folder)
    text = (folder / "map.yaml").read_text()
    files = {"one: overlap": "C1/Official_Name.run", "two: shuffle": "two-shuffle_mini-task1.tsv.gz.txt"}
    rows = {row: {"c1": file} for row, file in files.items()}
    assert yaml.safe_load(text) == {"paper": "own", "tables": {"1": rows}}
    assert "# no matching row: 'overlap-title.txt'" in text
    assert said == [
        f"{folder}/map.yaml: written; 2 files were matched by their names; 1 file matches no row, such as "
        "overlap-title.txt; "
        "recognised names have a row and a collection, such as c1/one-overlap.run"
    ]
    assert [run.origin for run in made.runs] == ["brought", "brought", "fused"]
    again, _, said = brought(own, folder)
    assert ((folder / "map.yaml").read_text(), said, again.verdicts) == (text, [], found.verdicts)


def test_two_files_with_names_of_one_run_are_refused(own: Paper, folder: Path) -> None:
    for name in ("c1-one-overlap.run", "mini-task1.official-name.run"):
        shutil.copyfile(folder / "overlap.txt", folder / name)
    said = "c1-one-overlap.run and mini-task1.official-name.run match the same run, 'one: overlap'"
    refuses(f"^{folder}: {said} .* on c1; keep one, or write .*map.yaml$", lambda: bring(own, folder, None))
    assert not (folder / "map.yaml").exists()


@pytest.mark.parametrize(("name", "run", "collection"), case_table("papers/run-names"))
def test_parts_of_a_name_in_any_order(tmp_path: Path, name: str, run: str, collection: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    found, rest = fitting(load_paper("crossmath"), tmp_path)
    assert [(row.name, place) for row, place in found.values()] == ([(run, collection)] if run else [])
    assert rest == ([] if run else [path])


def test_which_names_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "ours.run").touch()
    (line,) = faults(load_paper("crossmath"), tmp_path)
    assert "such as arqmath-1/eng-NLLB-bi.run, or language (name or ISO code), translator, model and collection" in line
    assert "in any order: Croatian_mBART-Bi-encoder_arqmath-1.tsv; rename the files, or write" in line


def test_all_faults_of_a_map_at_once(own: Paper, folder: Path) -> None:
    (folder / "damaged.txt").write_text("M.1 Q0 a1 1 2.0 x\nM.1 Q0 a1 2 high x\n")
    (folder / "strange.txt").write_text("M.1 Q0 a1 1 2.0 x\nQ.7 Q0 a1 1 2.0 x\n")
    tables = {
        "1": {
            "one: overlop": {"c1": "overlap.txt"},
            "one: overlap": {"c2": "overlap.txt"},
            "two: shuffle": {"c1": "shuffel.txt"},
            "both": {"c1": ["overlap.txt", "shuffle.txt"]},
            "three": {"c1": 3},
        },
        "0": {"official-name": {"c1": "damaged.txt"}},
        "5": {"cost": {"c1": "overlap.txt"}},
        "7": {"one": {"c1": "overlap.txt"}},
        4.1: {"seeds": {"c1": "overlap.txt"}},
        "4.10": {"seeds": {"c1": ["overlap.txt", "overlap.txt"]}},
    }
    write(folder, tables, paper="crossmath", keys={"file": "keys.tsv", "id_column": "id", "key_column": "key"})
    assert faults(own, folder) == [
        "tables: 4.1 is read as a number; put it in quotes",
        "key 'paper' is 'crossmath', expected 'own'",
        "tables: 1: row 'one: overlop' is unknown; did you mean 'one: overlap'?",
        "tables: 1: one: overlap: collection 'c2' is unknown; did you mean 'c1'?",
        f"tables: 1: two: shuffle: c1: {folder}/shuffel.txt: no such file; did you mean 'shuffle.txt'?",
        "tables: 1: both: c1: 2 files, but the row's numbers come from one run",
        "tables: 1: three: c1: found 3, expected a run file, or a list of run files, one per seed",
        "tables: table '5' has no number computed from runs; known: 0, 1, 4.10",
        "tables: table '7' is unknown; known: 0, 1, 4.10",
        "tables: 4.10: seeds: c1: one file is listed twice; expected a different run for each seed",
        f"keys: {folder}/keys.tsv: no such file",
        f"{folder}/damaged.txt:2: score 'high' is not a finite number",
        f"{folder}/damaged.txt:2: document 'a1' of topic 'M.1' is on line 1 already",
    ]
    write(folder, {"1": {"one: overlap": {"c1": "damaged.txt"}, "three": {"c1": "strange.txt"}}})
    assert faults(own, folder) == [
        f"{folder}/damaged.txt:2: score 'high' is not a finite number",
        f"{folder}/damaged.txt:2: document 'a1' of topic 'M.1' is on line 1 already",
        f"{folder}/strange.txt:2: topic 'Q.7' is not among the collection's topics",
    ]


def test_a_map_of_another_form(own: Paper, folder: Path) -> None:
    for text, fault in (
        ("tables: {}\n", "key 'tables' is {}, expected keys and values"),
        ("tabels: {}\n", "key 'tabels' is unknown; did you mean 'tables'?"),
        ("tables: {'1': x}\n", "key '1' is 'x', expected keys and values"),
    ):
        (folder / "map.yaml").write_text(text)
        assert fault in "\n".join(faults(own, folder))


def test_names_that_no_file_has(own: Paper, folder: Path) -> None:
    """Neither a home of a user that there is not, nor a name that the file system cannot have, ends in a traceback."""
    long = "x" * 5_000
    tables = {
        "1": {"one: overlap": {"c1": "~nobody-at-all/x.run"}, "three": {"c1": long}},
        "4.10": {"seeds": {"c1": ["overlap.txt", "./overlap.txt"]}},
    }
    write(folder, tables, keys={"file": long, "id_column": "id", "key_column": "key"})
    assert [line.partition("; ")[0] for line in faults(own, folder)] == [
        f"tables: 1: one: overlap: c1: {folder}/~nobody-at-all/x.run: no such file",
        f"tables: 1: three: c1: {folder}/{long}: no such file",
        "tables: 4.10: seeds: c1: one file is listed twice",
        f"keys: {folder}/{long}: no such file",
    ]


def test_two_rows_of_one_run_need_one_file(own: Paper, folder: Path) -> None:
    tables = {"0": {"official-name": {"c1": "overlap.txt"}}, "1": {"one: overlap": {"c1": "overlap.txt"}}}
    write(folder, tables)
    assert len(bring(own, folder, None).runs) == 1
    tables["1"]["one: overlap"]["c1"] = "shuffle.txt"
    write(folder, tables)
    assert faults(own, folder) == [
        "tables: 1: one: overlap: c1: prints the numbers of the same run as row 'official-name' of table 0, which has "
        "another file"
    ]


def test_one_file_for_two_rows_is_told(own: Paper, folder: Path) -> None:
    write(folder, {"1": {"one: overlap": {"c1": "overlap.txt"}, "three": {"c1": "./overlap.txt"}}})
    found, made, said = brought(own, folder)
    note = f"{folder}/overlap.txt: is the run of several rows: one: overlap on c1, three on c1"
    assert said == [note]
    assert made.notes == (note,)
    assert verdicts(found)["three", "ndcg", ""] == verdicts(found)["one: overlap", "ndcg", ""]
    assert "is the run of several rows" in markdown(found)


def test_a_mean_over_seeds_needs_a_run_of_each(own: Paper, folder: Path) -> None:
    write(folder, {"4.10": {"seeds": {"c1": "overlap.txt"}}})
    (found,) = (v for v in brought(own, folder)[0].verdicts if v.cell.system == "seeds")
    cause = "2 runs, one per seed, of which 1 are available"
    assert (found.verdict, found.value, found.cause) == ("needs", None, cause)
    write(folder, {"4.10": {"seeds": {"c1": ["overlap.txt", "overlap-title.txt"]}}})
    reproduction = brought(own, folder)[0]
    (found,) = (v for v in reproduction.verdicts if v.cell.system == "seeds")
    means = [reproduction.scores["c1", f"seeds-{n}"].mean("nDCG") for n in (1, 2)]
    assert means[0] != means[1]
    assert found.value == pytest.approx(sum(means) / 2)
    write(folder, {"4.10": {"seeds": {"c1": ["overlap.txt", "overlap-title.txt", "shuffle.txt"]}}})
    assert faults(own, folder) == ["tables: 4.10: seeds: c1: 3 files, but the row's numbers are means over 2 seeds"]


def test_fusions_are_computed_from_the_runs_of_their_rows(own: Paper, folder: Path, mini: Task) -> None:
    write(folder, {"1": {"one: overlap": {"c1": "overlap.txt"}, "two: shuffle": {"c1": "shuffle.txt"}}})
    found, _, _ = brought(own, folder)
    files = [str(folder / f"{name}.txt") for name in ("overlap", "shuffle")]
    fused = load_system("fusion-rrf", k=7, runs=files)(Request(mini.topics, None, folder))
    expected = mini.scorer(fused).mean("nDCG")
    by_row = {v.cell.system: v for v in found.verdicts if v.cell.metric == "ndcg" and not v.cell.slice}
    assert by_row["both"].value == expected
    assert by_row["both"].cause == "fused here: both from one-overlap, two-shuffle"
    assert (by_row["all"].verdict, by_row["all"].cause) == ("needs", "the run of three on c1")
    # Where the fusion itself is brought, that is its run.
    tables = yaml.safe_load((folder / "map.yaml").read_text())["tables"]
    tables["1"]["both"] = {"c1": "overlap-title.txt"}
    write(folder, tables)
    found, made, _ = brought(own, folder)
    assert verdicts(found)["both", "ndcg", ""][1] == round(mini.scorer(read("overlap-title")).mean("nDCG"), 9)
    assert {run.origin for run in made.runs} == {"brought"}


@pytest.mark.slow
def test_a_complete_run_made_here_counts(own: Paper, tmp_path: Path, mini: Task) -> None:
    for system in ("shuffle", "overlap"):
        produced = make(load_system(system), mini, runs=tmp_path / "runs")
    found, made, said = brought(own, None, tmp_path / "runs")
    assert said == []
    origins = {"one: overlap": "made here", "two: shuffle": "made here", "both": "fused"}
    assert {run.row.label: run.origin for run in made.runs} == origins
    assert verdicts(found)["one: overlap", "ndcg", ""][1] == round(mini.scorer(produced.run).mean("nDCG"), 9)


@pytest.mark.slow
def test_runs_made_otherwise_do_not_count(own: Paper, folder: Path, tmp_path: Path, mini: Task) -> None:
    runs = tmp_path / "runs"
    path = runs / "mini-task1" / "overlap.run"

    def why() -> str:
        _, made, said = brought(own, None, runs)
        assert made == Brought()
        (line,) = said
        return line.removeprefix(f"{path}: not used as the run of 'one: overlap': ")

    make(load_system("overlap", depth=5), mini, runs=runs)
    assert why() == "it was made with another depth"
    make(load_system("overlap"), mini, runs=runs, rerank=True)
    assert why() == "it ranks judged documents only"
    write(folder, {"1": {"one: overlap": {"c1": str(path)}}})
    (line,) = faults(own, folder)
    assert line.endswith("overlap.run: ranks judged documents only, so its numbers cannot be the paper's")
    make(load_system("overlap"), mini, runs=runs)
    side = sidecar.sidecar_path(path)
    side.write_text(side.read_text().replace("name: mini-answers", "name: mini-formulas"))
    assert why() == "its metadata file, which says how it was made, is missing or damaged"
    side.unlink()
    make(load_system("overlap"), mini, runs=runs, reuse=False)
    path.write_text(path.read_text().replace("\t1\t", "\t1 \t", 1))
    assert why() == "its metadata file belongs to another run"


def test_a_run_on_another_corpus_is_refused(
    own: Paper, folder: Path, conf: Callable[[str, str, str], Path], tmp_path: Path
) -> None:
    (tmp_path / "part.jsonl").write_text('{"id": "a1007", "title": "power"}\n{"id": "a1088", "title": "even number"}\n')
    file = f"file: {{file: {tmp_path}/part.jsonl}}\nfields: {{id: id, title: title}}\n"
    conf("corpus", "part", f"name: part\ntitle: x\nlicence: x\n{file}")
    produced = make(load_system("overlap"), task("mini-task1", "part"), runs=tmp_path / "runs")
    _, made, (line,) = brought(own, None, tmp_path / "runs")
    assert made == Brought()
    assert line.endswith("it searched corpus part instead of mini-answers")
    write(folder, {"1": {"one: overlap": {"c1": str(produced.path)}}})
    (line,) = faults(own, folder)
    assert "searched corpus part instead of mini-answers, so its numbers cannot be the paper's" in line


def markdown(found: PaperReproduction) -> str:
    return render_markdown(paper_report(found, provenance(found.files, ["harness"])))


def test_the_report_and_its_data_say_whose_runs_these_are(own: Paper, folder: Path) -> None:
    write(folder, {"1": {"one: overlap": {"c1": "overlap.txt"}, "two: shuffle": {"c1": "shuffle.txt"}}})
    found, made, _ = brought(own, folder)
    report = paper_report(found, provenance(found.files, ["harness"]))
    data: dict[str, Any] = dict(report.data or {})
    shown = [(run["row"], run["origin"], run["sha256"]) for run in data["brought"]]
    assert shown == [(run.row.label, run.origin, run.run.sha256) for run in made.runs]
    assert found.files[str(folder / "overlap.txt")] == made.runs[0].run.sha256
    text = render_markdown(report)
    assert made.runs[0].run.sha256 in text
    assert {verdict["verdict"] for verdict in data["verdicts"]} <= set(KINDS)
    assert "brought" not in (paper_report(recompute_paper(own), provenance({}, ["harness"])).data or {})


def test_papers_whose_runs_cannot_be_scored(folder: Path) -> None:
    paper = load_paper("saber-math")
    unscored = replace(paper, config=replace(paper.config, scored=None))
    refuses(
        "key 'brought': runs cannot be scored for paper saber-math \\(needs ", lambda: bring(unscored, folder, None)
    )
    refuses("no such folder", lambda: bring(load_paper("mirmu-msm"), folder / "nowhere", None))


@pytest.mark.parametrize("key", ["crossmath", "mirmu-msm", "mathamr-plus"])
def test_every_row_with_a_scored_number_has_a_run_of_its_own_name(key: str) -> None:
    paper = load_paper(key)
    rows, scored = paper_rows(paper), paper.scored
    assert scored is not None
    available = paper.available.rows if paper.available is not None else ()
    same = {(row.table, row.label): row.run for row in available}
    one_run = {(a.table, a.system): (b.table, b.system) for a, b in paper.same_run}
    same |= {at: there for at, there in one_run.items() if at not in same}
    named: dict[str, set[tuple[str, str]]] = {}
    for at, row in rows.items():
        named.setdefault(row.name, set()).add(same.get(at, at))
    assert {name: len(of) for name, of in named.items() if len(of) > 1} == {}
    printed = {(cell.table, cell.group, cell.system) for cell in paper.cells if scored.place(cell)}
    tables = {cell.table for cell in paper.cells}
    assert len(printed) == sum(table in tables for table, _ in rows) > 0
