"""One command makes a paper of a few rows: the plan, the runs, what is absent or fails, and interruptions."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
from case_tables import literals
from making_tools import ABSENT, BOTH, FAILS, HUB, SINGLE, cells_file, paper_files
from tools import Done, Place, alive, own_corpus, until, wait_for

from harness.collections.corpus import Document
from harness.data.trec import read_run
from harness.experiments.task import task
from harness.papers.cells import predicted

pytestmark = pytest.mark.slow
MAKE = ("reproduce", "paper=own", "make=true", "formats=[json,md]")
# nDCG and P@10 of the mini collection at the printed digits.
EXACT = {"one: overlap": "0.834", "two: bm25": "0.806"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the parsers' tables, so that a command starts sooner."""
    return tmp_path_factory.mktemp("cache")


def prepared(root: Path, cache: Path, files: dict[str, str]) -> Place:
    place = Place(root)
    place.cache = cache
    place.environment["HARNESS_CACHE"] = str(cache)
    place.lay(files)
    return place


def verdicts(place: Place) -> dict[tuple[str, str], tuple[str, object, str]]:
    """(row, metric) -> verdict, value and cause in the report."""
    content = json.loads((place.here / "reports" / "own" / "report.json").read_text())
    return {(v["system"], v["metric"]): (v["verdict"], v["value"], v["cause"]) for v in content["data"]["verdicts"]}


def steps_said(done: Done) -> list[str]:
    """The lines of progress without times."""
    return re.findall(r"^step \d+ of \d+, (.*?: (?:made|failed)) in ", done.err, re.MULTILINE)


ALL = {**SINGLE, **BOTH, **ABSENT, **FAILS}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Place, Done]:
    """The paper with all kinds of rows, made once."""
    place = prepared(tmp_path_factory.mktemp("calm"), cache, paper_files(ALL, EXACT))
    before = place.files()
    plan = place.good(*MAKE, "--dry-run")
    assert plan.startswith("own: 7 steps, 0 made, 6 to make, 1 left out\n")
    content = json.loads(place.good(*MAKE, "--dry-run", "--json"))
    assert [each["title"] in plan for each in content["steps"]] == [True] * 7
    assert place.files() == before  # neither made anything
    return place, place.run(*MAKE)


def test_what_can_be_made_is_and_the_rest_is_said(calm: tuple[Place, Done]) -> None:
    place, done = calm
    assert done.code == 2
    log = "runs/making/own/logs/1-fails-mini-task1.txt"
    *_, fetch, _, _ = done.err.splitlines()
    assert fetch.startswith("harness: not fetched: nobody/nothing-to-find: ")
    assert fetch.endswith(" (runs/making/own/logs/fetch-nobody-nothing-to-find.txt)")
    assert done.err.splitlines()[-2:] == [
        f"harness: failing on mini-task1: system failing: ValueError: as told ({log})",
        "harness: 1 with it mini-task1: not run: the step failing on mini-task1 failed",
    ]
    assert "ValueError: as told" in (place.here / log).read_text()
    assert steps_said(done) == [
        "overlap on mini-task1: made",
        "bm25 on mini-task1: made",
        "failing on mini-task1: failed",
        "1 both mini-task1: made",
        "1 with it mini-task1: failed",
    ]
    assert "left out: hub-encoder on mini-task1: needs nobody/nothing-to-find" in done.err
    assert sorted(Path(name).name for name in place.runs()) == ["1-both-mini-task1.run", "bm25.run", "overlap.run"]
    found = verdicts(place)
    assert {row for row, _ in found} == set(ALL)
    assert found["one: overlap", "ndcg"][0] == found["two: bm25", "ndcg"][0] == "exact"
    assert found["both", "ndcg"][0] == "differs"
    assert {found[row, "ndcg"][0] for row in ("hub", "asked", "fails", "with it")} == {"needs"}


def test_the_same_call_makes_only_what_failed(calm: tuple[Place, Done]) -> None:
    place, _ = calm
    before, report = place.files("runs/mini-task1"), verdicts(place)
    again = place.run(*MAKE)
    assert (again.code, steps_said(again)) == (2, ["failing on mini-task1: failed", "1 with it mini-task1: failed"])
    assert (place.files("runs/mini-task1"), verdicts(place)) == (before, report)


def test_without_a_failure_the_exit_code_is_0(tmp_path: Path, cache: Path, calm: tuple[Place, Done]) -> None:
    """A file that is not fetched is one, though all steps that remain are made already."""
    rows = {**SINGLE, **BOTH, **HUB}
    place = prepared(tmp_path, cache, paper_files(rows))
    done = place.run(*MAKE, "rows=both", "budget=3")
    assert (done.code, len(steps_said(done))) == (0, 3)
    assert "\nbudget 3 dollars, 0.00 spent by earlier calls, 3.00 left\n" in done.out
    done = place.run(*MAKE)
    assert (done.code, steps_said(done)) == (2, [])
    assert done.err.splitlines()[-1].startswith("harness: not fetched: nobody/nothing-to-find: ")
    assert place.runs() == calm[0].runs()


def test_plans_of_all_papers_are_one_document(tmp_path: Path, cache: Path) -> None:
    place = prepared(tmp_path, cache, paper_files(SINGLE))
    words = ("reproduce", "paper=all", "make=true", "seeds=1", "scale=here", "--dry-run")
    found = json.loads(place.good(*words, "--json"))
    assert [each["paper"] for each in found["papers"]] == ["mathamr-plus", "mathlib4", "mirmu-msm", "saber-math"]
    for total in ("to make", "left out", "with what is left out"):
        whole = sum(each[total]["disk, MB"]["high"] for each in found["papers"])
        assert found[total]["disk, MB"]["high"] == pytest.approx(whole)
    last = place.good(*words).splitlines()[-4:]
    assert [line.partition(":")[0] for line in last] == ["all papers", *list(found)[1:]]


def test_the_last_line_at_small_scale_says_how_many_numbers_have_a_value(tmp_path: Path, cache: Path) -> None:
    here = {"corpus": "mini-answers", "says": "small"}
    place = prepared(tmp_path, cache, paper_files({**SINGLE, **HUB}, here=here))
    done = place.run(*MAKE, "scale=here")
    assert (done.code, len(steps_said(done))) == (0, 2)
    assert "own: 4 of 6 printed numbers have a value at small scale" in done.out.splitlines()
    assert "left out  hub-encoder on mini-task1: needs the model nobody/nothing-to-find (not at small" in done.out


@pytest.mark.parametrize(("words", "said"), literals("commands/make"))
def test_one_wrong_key(calm: tuple[Place, Done], words: tuple[str, ...], said: str) -> None:
    (line,) = calm[0].refused(*MAKE, *words)
    assert line.startswith(said)


# ---- runs that are there --------------------------------------------------------------------------------------------


def test_runs_of_commands_typed_by_hand_count(tmp_path: Path, cache: Path) -> None:
    """Also on a corpus whose file a person brings, which has no declared checksum; a run made otherwise does not."""
    files = paper_files(SINGLE)
    files["conf/paper/own.yaml"] = files["conf/paper/own.yaml"].replace("corpus: mini-answers", "corpus: brought")
    place = prepared(tmp_path, cache, files)
    own_corpus(place, "brought", [Document("a1007", "power"), Document("a1088", "even number")])
    words = ("run", "collection=mini-task1", "corpus=brought", "formats=[json]")
    place.good(*words, "system=overlap")
    place.good(*words, "system=bm25", "system.k1=0.5")
    assert place.good(*MAKE, "--dry-run").startswith("own: 2 steps, 1 made, 1 to make")
    done = place.run(*MAKE)
    assert (done.code, steps_said(done)) == (0, ["bm25 on mini-task1: made"])
    own_corpus(place, "brought", [Document("a1007", "power"), Document("a1088", "odd number")])
    assert place.good(*MAKE, "--dry-run").startswith("own: 2 steps, 0 made, 2 to make")


def test_runs_that_a_person_brings_count(tmp_path: Path, cache: Path, calm: tuple[Place, Done]) -> None:
    """What fuses them is fused when the tables are made."""
    place = prepared(tmp_path, cache, paper_files({**SINGLE, **BOTH}, EXACT))
    shutil.copytree(calm[0].here / "runs" / "mini-task1", place.here / "theirs")
    place.write("theirs/map.yaml", 'tables: {"1": {"one: overlap": {c1: overlap.run}}}')
    done = place.run(*MAKE, "brought=theirs")
    assert (done.code, steps_said(done)) == (0, ["bm25 on mini-task1: made"])
    assert done.out.startswith("own: 3 steps, 2 made, 1 to make")
    assert list(place.runs()) == ["runs/mini-task1/bm25.run"]
    found = {row: verdict[:2] for row, verdict in verdicts(place).items()}
    assert found == {row: verdict[:2] for row, verdict in verdicts(calm[0]).items() if row in found}


def test_a_finished_experiment_counts_and_its_seeds_are_one_number(tmp_path: Path, cache: Path) -> None:
    files = paper_files({"one: overlap": {"system": "overlap"}}, experiments={"mini": ["E"]})
    printed = [("E", "any order", "ndcg", "0.700", "mean_3_seeds"), ("E", "any order", "p10", "0.3", "best_seed")]
    files["conf/paper/cells/own.csv"] += cells_file(printed, "judged documents").partition("\n")[2]
    place = prepared(tmp_path, cache, files)
    words = (*MAKE, "seeds=2", "rows=any order*")
    done = place.run(*words)
    assert (done.code, steps_said(done)) == (0, ["experiment mini any order: made"])
    assert place.good(*words, "--dry-run").startswith("own: 1 step, 1 made")
    assert place.good(*words[:-2], "--dry-run").startswith("own: 2 steps, 0 made")  # all conditions, three seeds
    found = verdicts(place)
    assert found["any order", "p10"][2] == "the best of 2 seeds, printed of 5"
    scored = task("mini-task1", "mini-answers", protocol="arqmath-task1").scorer
    seeds = [scored(read_run(path)) for path in sorted(place.here.glob("runs/mini-task1/shuffle-*.run"))]
    ndcg, p10 = ([each.mean(measure) for each in seeds] for measure in ("nDCG", "P@10"))
    low, high = predicted(ndcg, "mean", 3)
    assert low < 0.7 < high
    cause = f"the mean of 2 seeds, printed of 3; 2 seeds: expected between {low:.4f} and {high:.4f}"
    assert found["any order", "ndcg"] == ("within", pytest.approx(sum(ndcg) / 2), cause)
    assert found["any order", "p10"][1] == pytest.approx(p10[ndcg.index(max(ndcg))])  # the best by the first measure


# ---- interruptions --------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("words", [(), ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")])
def test_an_interrupt_leaves_what_is_finished(words: tuple[str, ...], tmp_path: Path, cache: Path) -> None:
    place = prepared(tmp_path, cache, paper_files({**FAILS, **SINGLE}))
    place.write("told", "wait")
    process = place.start(*MAKE, *words)
    wait_for(place.here / "waits", 1)
    command = int((place.here / "waits").read_text())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "harness: stopped; what was written is whole")
    assert "interrupted: finished runs are kept, and the same command goes on with the others" in said.splitlines()
    assert "Traceback" not in said
    until(lambda: not alive(command))
    place.write("told", "pass")
    place.good(*MAKE)
    assert len(place.runs()) == 4


def test_a_second_call_at_the_same_time_is_refused(tmp_path: Path, cache: Path) -> None:
    place = prepared(tmp_path, cache, paper_files(FAILS | SINGLE))
    place.write("told", "wait")
    process = place.start(*MAKE)
    wait_for(place.here / "waits", 1)
    done = place.run(*MAKE)
    (place.here / "told").unlink()
    process.communicate(timeout=60)
    said = "harness: runs/making/own: is in use by another call that makes its runs; name another folder\n"
    assert (done.code, done.err) == (2, said)
