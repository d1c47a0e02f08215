"""Runs that were made from stand-ins are refused wherever a number could be made of them."""

from __future__ import annotations

import json

import pytest
import yaml
from test_user_runs_reproduced import PAPER
from tools import Place

from harness.io.files import data_root
from harness.io.rehearsal import MARK
from harness.papers.cells import HEADER

REAL = str(data_root() / "runs" / "mini" / "mini-task1" / "shuffle.run")
SIDE = "runs/mini-task1/bm25.ir-metadata.yml"
CELL = "own,1,a table,bm25,,c1,task1,,ndcg,single,0.9,,,0,\n"
RUN = ("run", "collection=mini-task1", "system=bm25")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder with a run that was made inside a rehearsal."""
    made = Place(tmp_path_factory.mktemp("guard"))
    made.write("stand-ins/rehearsal.yaml", "made by: mathir-harness 0\n")
    made.good(*RUN, environment={"HARNESS_REHEARSAL": str(made.here / "stand-ins")})
    assert f"\n  {MARK}: true\n" in (made.here / SIDE).read_text(encoding="utf-8")
    made.write("conf/paper/own.yaml", PAPER)
    made.write("conf/paper/cells/own.csv", ",".join(HEADER) + "\n" + CELL)
    for ending in (".run", ".ir-metadata.yml"):
        content = (made.here / f"runs/mini-task1/bm25{ending}").read_bytes()
        made.write(f"theirs/c1/bm25{ending}", content)
        made.write(f"copies/b{ending}", content)
    made.good("lab", "new", "lab", "-c", "mini-task1", "--baseline", REAL)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "copies/b.run", "-c", "mini-task1"),
        ("compare", REAL, "copies/b.run", "-c", "mini-task1"),
        ("submit", "copies/b.run", "--lab", "lab", "--team", "T"),
        ("lab", "new", "other", "-c", "mini-task1", "--baseline", "copies/b.run"),
        ("leaderboard", "copies", "-c", "mini-task1"),
        ("reproduce", "paper=own", "brought=theirs"),
        ("run", "collection=mini-task1", "system=fusion-rrf", f"system.runs=[copies/b.run,{REAL}]"),
    ],
    ids=" ".join,
)
def test_it_is_refused_with_the_reason(place: Place, arguments: tuple[str, ...]) -> None:
    before = place.files("copies", "lab")
    done = place.run(*arguments)
    assert (done.code, done.out) == (2, ""), done.out
    assert "was made from stand-ins by harness rehearse, so its scores mean nothing" in done.err
    assert place.files("copies", "lab") == before
    assert not (place.here / "reports" / "leaderboard").exists()


@pytest.mark.slow
def test_it_is_made_again_and_not_reused(place: Place) -> None:
    done = place.run(*RUN)
    assert done.code == 0, done.err
    assert MARK not in (place.here / SIDE).read_text(encoding="utf-8")
    place.good("score", "runs/mini-task1/bm25.run", "-c", "mini-task1")


@pytest.mark.slow
def test_a_folder_without_a_rehearsal_is_said(place: Place) -> None:
    said = f"HARNESS_REHEARSAL={place.here}: holds no rehearsal; unset it (harness rehearse sets it by itself)"
    assert place.refused(*RUN, environment={"HARNESS_REHEARSAL": str(place.here)}) == [said]


@pytest.mark.slow
def test_links_and_other_forms_of_the_metadata(place: Place) -> None:
    """The mark is found behind links, in JSON, and for every file in the folder of a rehearsal."""
    run, side = (place.here / f"copies/b{ending}" for ending in (".run", ".ir-metadata.yml"))
    other = place.here / "other"
    other.mkdir()
    (other / "link.run").symlink_to(run)
    (other / "json.run").write_bytes(run.read_bytes())
    (other / "json.ir-metadata.yml").write_text(json.dumps(yaml.safe_load(side.read_text(encoding="utf-8"))))
    (place.here / "stand-ins" / "bare.run").write_bytes(run.read_bytes())
    for path in ("other/link.run", "other/json.run", "stand-ins/bare.run"):
        assert f"{path}: was made from stand-ins" in place.refused("score", path, "-c", "mini-task1")[0]


@pytest.mark.slow
def test_stand_ins_are_not_brought_and_their_cache_is_not_used(place: Place) -> None:
    """Data and caches in the folder of a rehearsal would make runs that carry no mark."""
    posts = place.write("stand-ins/given/Posts.V1.3.xml", "<posts></posts>")
    folder = f"is in {place.here}/stand-ins, the folder of a rehearsal"
    said = f"{posts}: {folder}, which holds stand-ins only"
    assert place.refused("fetch", "arqmath-posts", "--from", str(posts)) == [said]
    inside = place.here / "stand-ins" / "cache"
    done = place.run(*RUN, "runs=else", environment={"HARNESS_CACHE": str(inside)})
    assert done.code == 2
    assert f"{inside}: {folder}" in done.err


@pytest.mark.slow
def test_published_runs_count_as_made_outside_only(place: Place) -> None:
    plan = ("reproduce", "paper=crossmath", "make=true", "dry=true")
    assert place.good(*plan).startswith("crossmath: 1 step, 1 made, ")
    place.write("stand-ins/conf/README", "")
    inside = place.good(*plan, environment={"HARNESS_REHEARSAL": str(place.here / "stand-ins")})
    assert inside.startswith("crossmath: 1 step, 0 made, ")
