"""A lab at the command line: made, submitted to by several at once, checked; what goes wrong is one line a fault."""

from __future__ import annotations

import pytest
from tools import Place

from harness.io.files import data_root

RUNS = data_root() / "runs" / "mini" / "mini-task1"


@pytest.mark.parametrize(
    ("output", "taken"),
    [
        (".", "lab"),
        ("lab", "lab"),
        ("other", "other"),
        ("lab/submissions", "lab"),
        ("other/submissions/A/new/site", "other"),
        ("within", "{here}/lab"),
        ("linking", "{here}/lab"),
    ],
)
def test_pages_are_not_written_where_a_lab_is(place: Place, output: str, taken: str) -> None:
    for name in ("lab", "other"):
        place.good("lab", "new", name, "--collection", "mini-task1")
    here = place.here.resolve()
    (here / "within").symlink_to(here / "lab" / "submissions")
    (here / "linking").mkdir()
    (here / "linking" / "lab").symlink_to(here / "lab" / "submissions")
    taken = taken.format(here=here)
    before = place.files()
    done = place.run("site", "build", "lab", "-o", output)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == f"harness: --output {output}: pages would be written into the lab {taken}; choose another folder\n"
    )
    assert place.files() == before


@pytest.mark.parametrize("command", [("leaderboard", "lab"), ("score", str(RUNS / "overlap.run"), "-c", "mini-task1")])
def test_reports_are_not_written_among_submissions(place: Place, command: tuple[str, ...]) -> None:
    place.good("lab", "new", "lab", "-c", "mini-task1", "--baseline", str(RUNS / "shuffle.run"))
    here = place.here.resolve()
    (here / "within").symlink_to(here / "lab" / "submissions")
    before = place.files()
    where = "the report would be written among the submissions or private files of the lab"
    for output, lab in (
        ("lab/submissions", "lab"),
        ("lab/submissions/baseline", "lab"),
        ("lab/private/new/deep", "lab"),
        ("within/new", f"{here}/lab"),
    ):
        done = place.run(*command, "-o", output)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"harness: --output {output}: {where} {lab}; choose another folder\n"
    assert place.files() == before
    place.good(*command, "-o", "lab/leaderboard")
    place.good("lab", "check", "lab")


@pytest.mark.slow
def test_a_private_lab_shows_no_scores_unless_it_is_told_to(place: Place) -> None:
    place.good("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25", "formats=[json]")
    for name, more, shown in (("quiet", (), False), ("noisy", ("--feedback", "noisy"), True)):
        place.good("lab", "new", name, "-c", "mini-task1", "--private", "--cap", "3", *more)
        place.good("lab", "team", "add", name, "A")
        said = place.good("submit", "runs/mini-task1/bm25.run", "-l", name, "-t", "A", "--organiser")
        assert ("no score is shown before the end" in said, "Budget spent: 1 of 3 submissions." in said) == (
            not shown,
            shown,
        )
