"""Records of rehearsed rows: complete, of the commands and settings of today, and shown."""

from __future__ import annotations

import pytest

from harness.papers.paper import load_paper, paper_names
from harness.papers.records import of_system, read_rehearsed, read_settings
from harness.papers.steps import paper_steps
from harness.rehearsal.run import row_digests, row_systems

PAPERS = paper_names()


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_a_record_is_of_todays_commands_and_settings(paper: str) -> None:
    """If this fails: `harness rehearse PAPER --rows ROW --record conf/paper/rehearsed`, for the rows that it shows."""
    planned, _ = paper_steps(load_paper(paper), seeds=1)
    digests, systems = row_digests(planned), row_systems(planned)
    today = {(row.table, row.label): (digest, " ".join(sorted(systems[row]))) for row, digest in digests.items()}
    found = {(row.tables, row.row): (row.digest, row.systems) for row in read_rehearsed(paper)}
    assert {row: value for row, value in today.items() if found.get(row) != value} == {}
    assert found.keys() == today.keys()


@pytest.mark.parametrize("paper", PAPERS)
def test_the_settings_name_every_system_that_was_rehearsed(paper: str) -> None:
    page = "\n".join(row.ours for row in read_settings(paper))
    names = {name for row in read_rehearsed(paper) for name in row.systems.split()}
    assert names
    assert [name for name in sorted(names) if f"`{name}`" not in page and f"={name}" not in page] == []


def test_what_a_system_needs_says_that_its_recipe_was_rehearsed() -> None:
    (name, *_) = read_rehearsed("mathlib4")[0].systems.split()
    assert of_system(name) == read_rehearsed("mathlib4")[0].version
    assert of_system("shuffle") == ""
