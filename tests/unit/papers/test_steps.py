"""The steps of each paper: every row has a command or a reason, and what a command needs is made before it."""

from __future__ import annotations

import re

import pytest

from harness.errors import HarnessError
from harness.io import config
from harness.papers.paper import load_paper, paper_names
from harness.papers.rows import labels
from harness.papers.steps import HERE, NothingToMakeError, PrintedRow, RunStep, Selection, paper_steps, planned_run
from harness.rehearsal.world import models_of, sources_of
from harness.systems.dense.training.settings import Tuning


@pytest.mark.parametrize("name", paper_names())
def test_every_row_has_a_command_or_a_reason(name: str) -> None:
    paper = load_paper(name)
    made, left = paper_steps(paper, seeds=1)
    known = {(table, row.label) for step in made for row in step.rows for table in row.table.split(", ")}
    known |= {(row.table, row.label) for row in left}
    if paper.available is not None:
        by_table: dict[str, set[tuple[str, str]]] = {}
        for cell in paper.cells:
            if cell.table in {row.table for row in paper.available.rows}:
                by_table.setdefault(cell.table, set()).add((cell.group, cell.system))
        assert {(table, label) for table, rows in by_table.items() for label in labels(rows).values()} <= known
    assert len({step.name for step in made}) == len(made)
    assert all(step.words[0] == "run" for step in made)


@pytest.mark.slow
def test_what_a_fusion_reads_is_made_before_it() -> None:
    made, _ = paper_steps(load_paper("mirmu-msm"))
    written: set[str] = set()
    for step in made:
        read = {name for word in step.words for name in re.findall(r"runs/[^,\]]+\.run", word)}
        assert read <= written, step.command
        choice = dict(word.partition("=")[::2] for word in step.words)
        name = choice.get("system.name") or str(config.load("system", choice["system"])[0]["name"])
        written.add(f"runs/{choice['collection']}/{name}.run")


@pytest.mark.slow
def test_columns_of_earlier_years_leave_out_the_year_that_they_rank() -> None:
    """A model that learns from ARQMath-1 and -2 ranks neither; its columns of these years have models of their own."""
    made, _ = paper_steps(load_paper("mirmu-msm"), Selection("mirmu 4*"))
    commands = {word: step.words for step in made for word in step.words if word.startswith("collection=")}
    assert list(commands) == [f"collection=arqmath-{year}-task1" for year in (1, 2, 3)]
    assert "system.training.collections=[arqmath-2-task1]" in commands["collection=arqmath-1-task1"]
    assert "system.first.training.leave_out=[arqmath-2-task1]" in commands["collection=arqmath-2-task1"]
    assert not any("training" in word for word in commands["collection=arqmath-3-task1"])


@pytest.mark.slow
def test_what_steps_need() -> None:
    made, _ = paper_steps(load_paper("mathlib4"))
    parts = [part for step in made for part in step.systems()]
    assert models_of(parts) == {"WhereIsAI/UAE-Large-V1", "intfloat/e5-mistral-7b-instruct"}
    assert sources_of({name for step in made for name in step.corpora()}) == {"leansearch", "mathlib"}
    made, _ = paper_steps(load_paper("mathamr-plus"), Selection(tables=("4.9",)))
    assert sources_of({name for step in made for name in step.corpora()}) == {"arqmath-posts"}


def test_a_digest_depends_on_the_command_and_its_configurations() -> None:
    one = RunStep("a", ("run", "collection=mini-task1", "system=bm25"), (PrintedRow("1", "a"),))
    same = RunStep("b", one.words, ())
    other = RunStep("a", (*one.words, "system.k1=0.9"), one.rows)
    assert one.digest() == same.digest() != other.digest()
    assert [part["k1"] for part in other.systems()] == [0.9]


@pytest.mark.parametrize(
    ("paper", "part", "scale", "labels"),
    [
        ("mirmu-msm", Selection(tables=("2",)), "", {"2"}),
        ("mirmu-msm", Selection(tables=("1", "3")), HERE, {"1", "3"}),
        ("mathamr-plus", Selection(tables=("4.10", "4.17")), "", {"4.10, 4.11, 4.12", "4.17"}),
        ("saber-math", Selection("*jina*"), HERE, {"main results"}),
        ("mathlib4", Selection("*e5*", ("6",)), HERE, {"6"}),
    ],
)
@pytest.mark.slow
def test_tables_and_rows_select_with_what_they_read(paper: str, part: Selection, scale: str, labels: set[str]) -> None:
    made, left = paper_steps(load_paper(paper), part, scale)
    whole = {step.words for step in paper_steps(load_paper(paper), scale=scale)[0]}
    assert {step.words for step in made} <= whole
    chosen = [row for step in made for row in step.rows]
    assert all(part.fits(row) for row in (*chosen, *left))
    assert {row.table for row in chosen} == labels
    files: set[str] = set()
    for step in made:
        assert set(step.reads()) <= files, step.command
        files.add(step.file)
    needed = {file for step in made for file in step.reads()}
    assert all(step.rows or step.file in needed for step in made)


@pytest.mark.slow
def test_seeds_of_trained_systems_have_names_of_their_own() -> None:
    paper = load_paper("mirmu-msm")
    made, _ = paper_steps(paper, Selection("mirmu 4*", collections=("arqmath-3-task1",)), seeds=3)
    name = "mirmu-minilm-tuned-roberta"
    assert [step.runs[0].name for step in made] == [name, f"{name}-seed-2", f"{name}-seed-3"]
    assert len({step.name for step in made}) == len({step.file for step in made}) == 3
    trained = [step.runs[0].configuration["training"] for step in made[1:]]
    trained += [step.runs[0].configuration["first"]["training"] for step in made[1:]]
    assert [how["seed"] for how in trained] == [Tuning.seed + 1, Tuning.seed + 2] * 2  # of re-ranker and retriever
    assert len({tuple(step.rows) for step in made}) == 1
    untrained, _ = paper_steps(paper, Selection("msm 3:*"), seeds=3)
    assert len(untrained) == 3  # the years
    (experiment,) = paper_steps(load_paper("mathamr-plus"), Selection(tables=("4.9",)), seeds=2)[0]
    (once,) = paper_steps(load_paper("mathamr-plus"), Selection(tables=("4.9",)), seeds=1)[0]
    assert experiment.words[-1] == "only={seed:[42,43]}"
    assert len(experiment.runs) == 2 * len(once.runs)


@pytest.mark.slow
def test_a_condition_of_an_experiment_is_made_alone() -> None:
    made, _ = paper_steps(load_paper("mathamr-plus"), Selection("Sequential", ("4.10",)))
    assert [(step.title, step.condition) for step in made] == [("experiment mathamr-edges Sequential", "Sequential")]
    assert {row.label for step in made for row in step.rows} == {"Sequential"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Selection("zzz"), "no row with a command fits; known: "),
        (Selection(tables=("9",)), "key 'tables' is '9'; known: 1, 2, 3, figure 2"),
        (Selection(collections=("nope",)), "key 'collections' is 'nope'; known: arqmath-1, "),
        (Selection(collections=("mini-task1",)), "no command makes a row on mini-task1"),
    ],
)
def test_a_part_that_is_not_there(part: Selection, why: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(why)) as caught:
        paper_steps(load_paper("mirmu-msm"), part)
    assert isinstance(caught.value, NothingToMakeError) == ("key" not in why)


def test_words_of_a_run() -> None:
    words = ["run", "collection=c", "corpus=d", "edition=e", "rerank=true", "system=bm25", "system.k1=0.9"]
    run = planned_run([*words, "system.name=mine"])
    assert (run.collection, run.corpus, run.edition, run.rerank, run.name) == ("c", "d", "e", True, "mine")
    assert run.configuration["k1"] == 0.9
    words = ["run", "collection=c", "corpus=d", "system=fusion-rrf", "system.runs=[bm25,runs/c/x.run]"]
    fusion = RunStep("1 a b", tuple(words), ())
    assert fusion.reads() == ("c/bm25.run", "c/x.run")
    assert fusion.located("runs")[-1] == "system.name=1-a-b"
    read = "system.runs=[bm25,runs/here/c/x.run]"
    assert fusion.located("runs/here")[-3:] == (read, "system.name=1-a-b", "runs=runs/here")
