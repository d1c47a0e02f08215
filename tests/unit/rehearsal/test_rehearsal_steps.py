"""The steps of each paper: every row has a command or a reason, and what a command needs is made before it."""

from __future__ import annotations

import re

import pytest

from harness.errors import HarnessError
from harness.io import config
from harness.papers.paper import load_paper, paper_names
from harness.papers.rows import labels
from harness.papers.steps import Row, Selection, Step, steps
from harness.rehearsal.world import models_of, scale_of, sources_of


@pytest.mark.parametrize("name", paper_names())
def test_every_row_has_a_command_or_a_reason(name: str) -> None:
    paper = load_paper(name)
    made, left = steps(paper, seeds=1)
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
    made, _ = steps(load_paper("mirmu-msm"))
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
    made, _ = steps(load_paper("mirmu-msm"), Selection("mirmu 4*"))
    commands = {word: step.words for step in made for word in step.words if word.startswith("collection=")}
    assert list(commands) == [f"collection=arqmath-{year}-task1" for year in (1, 2, 3)]
    assert "system.training.collections=[arqmath-2-task1]" in commands["collection=arqmath-1-task1"]
    assert "system.first.training.leave_out=[arqmath-2-task1]" in commands["collection=arqmath-2-task1"]
    assert not any("training" in word for word in commands["collection=arqmath-3-task1"])


@pytest.mark.slow
def test_a_pattern_takes_rows_with_what_they_are_made_from() -> None:
    paper = load_paper("mirmu-msm")
    made, _ = steps(paper, Selection("ens 9:*"))
    assert {row.label for step in made for row in step.rows if row.label.startswith("ens")} == {
        "ens 9: rrf 60 of all 4 msm"
    }
    assert sum("system=fusion-rrf" in step.words for step in made) == 3  # the years
    assert {word for step in made for word in step.words if word.startswith("system=msm")} == {
        "system=msm-tfidf",
        "system=msm-bm25",
        "system=msm-sum",
    }
    with pytest.raises(HarnessError, match="no row with a command fits"):
        steps(paper, Selection("ens 99"))


@pytest.mark.slow
def test_what_steps_need() -> None:
    made, _ = steps(load_paper("mathlib4"))
    parts = [part for step in made for part in step.systems()]
    assert models_of(parts) == {"WhereIsAI/UAE-Large-V1", "intfloat/e5-mistral-7b-instruct"}
    assert sources_of({name for step in made for name in step.corpora()}) == {"leansearch", "mathlib"}
    made, _ = steps(load_paper("mathamr-plus"), Selection(tables=("4.9",)))
    assert sources_of({name for step in made for name in step.corpora()}) == {"arqmath-posts"}


def test_a_digest_depends_on_the_command_and_its_configurations() -> None:
    one = Step("a", ("run", "collection=mini-task1", "system=bm25"), (Row("1", "a"),))
    same = Step("b", one.words, ())
    other = Step("a", (*one.words, "system.k1=0.9"), one.rows)
    assert one.digest() == same.digest() != other.digest()
    assert [part["k1"] for part in other.systems()] == [0.9]


@pytest.mark.parametrize(("name", "count"), [("tiny", 2000), ("1/100", 24_000), ("1", 2_400_000)])
def test_scales(name: str, count: int) -> None:
    assert scale_of(name).posts == count


@pytest.mark.parametrize("name", ["small", "2", "0", "1/0", "1/100 ", "-1"])
def test_other_scales_are_refused(name: str) -> None:
    with pytest.raises(HarnessError, match="expected tiny, or a fraction"):
        scale_of(name)
