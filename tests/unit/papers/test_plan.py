"""Plans of papers: states of steps and of what they need, work counted once, totals by hand, text as JSON."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from making_tools import ABSENT, BOTH, FAILS, HUB, SINGLE, lay, paper_files

from harness.errors import HarnessError
from harness.papers import plan
from harness.papers.estimate import Needed, needed_by
from harness.papers.experiment_runs import CellRun, runs_of_rows
from harness.papers.paper import Paper, load_paper
from harness.papers.plan import PaperPlan, PlannedStep, Total, archived, plan_json, plan_lines, plan_paper, total
from harness.papers.rates import NOTHING, Range
from harness.papers.steps import HERE, NothingToMakeError, PrintedRow, RunStep, Selection, paper_steps
from harness.papers.work import WorkStep as Work


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Paper]:
    """A function that loads a paper of some rows over the mini collection."""
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "conf"))

    def load(rows: Mapping[str, object], **more: object) -> Paper:
        lay(tmp_path, paper_files(rows, {}, **more))
        return load_paper("own")

    return load


def states(found: PaperPlan) -> dict[str, str]:
    return {each.step.title: each.state for each in found.steps}


def test_what_is_absent_is_left_out_with_what_reads_it(own: Callable[..., Paper]) -> None:
    by_hand = {
        "asked": {"system": "hand-encoder", "set": {"depth": 5}},  # read as a file
        "with it": {"system": "fusion-rrf", "inputs": ["one: overlap", "asked"]},
        "lost": {"state": "blocked: lost"},
    }
    found = plan_paper(own({**SINGLE, **BOTH, **ABSENT, **by_hand}))
    assert states(found) == {
        "overlap on mini-task1": "to make",
        "bm25 on mini-task1": "to make",
        "hub-encoder on mini-task1": "to make",  # harness fetch gets its model
        "hand-encoder on mini-task1": "left out",
        "1 both mini-task1": "to make",
        "1 with it mini-task1": "left out",
    }
    why = [each.why for each in found.in_state("left out")]
    assert why == ["needs compubert", "needs the run hand-encoder on mini-task1"]
    assert [need.name for need in found.fetchable] == ["nobody/nothing-to-find"]
    assert {str(row): reason for row, reason in found.rowless.items()} == {"1: lost": "blocked: lost"}


def test_what_is_made_is_neither_work_nor_need(own: Callable[..., Paper]) -> None:
    paper = own({**SINGLE, **BOTH})
    found = plan_paper(paper, made=lambda step: step.title.startswith("bm25"))
    assert list(states(found).values()) == ["to make", "made", "to make"]
    everything = plan_paper(paper, made=lambda _: True)
    assert (everything.needs, everything.in_state("to make"), total(everything.steps)) == ((), (), total([]))


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["mirmu-msm", "mathlib4"])
def test_totals_are_sums_by_hand_and_shared_work_counts_once(paper: str) -> None:
    found = plan_paper(load_paper(paper), seeds=1)
    keys = [work.key for each in found.steps for work in each.work]
    assert len(keys) == len(set(keys))
    calls = [(call.endpoint, call.what) for each in found.steps for call in each.calls]
    assert len(calls) == len(set(calls))
    whole = found.totals["with what is left out"]
    works = [work for each in found.steps for work in each.work]
    works += [work for each in found.in_state("to make") for work in each.rest]
    known = [work.hours for work in works if work.hours is not None]
    assert whole.hours.low == pytest.approx(sum(each.low for each in known))
    assert whole.hours.high == pytest.approx(sum(each.high for each in known))
    assert whole.unknown == len(works) - len(known)
    assert whole.calls == sum(call.calls for each in found.steps for call in each.calls)
    files = [need.megabytes.high for need in found.needs if need.state != "here" and need.megabytes is not None]
    assert whole.disk.high == pytest.approx(sum(files) + sum(work.disk.high for work in works if work.disk is not None))
    content = plan_json(found)
    for key, of in (("hours of one core", "hours"), ("disk, MB", "disk")):
        assert [each[key]["high"] for each in content["steps"]] == [getattr(each, of).high for each in found.steps]
        parts = [content[title][key]["high"] for title in ("to make", "left out")]
        assert content["with what is left out"][key]["high"] == pytest.approx(sum(parts))


def test_totals_of_several_papers_are_their_sums(own: Callable[..., Paper]) -> None:
    found = plan_paper(own({**SINGLE, **ABSENT}))
    once, twice = found.totals["with what is left out"], plan.sum_totals([found, found])["with what is left out"]
    assert (twice.hours, twice.disk, twice.unknown) == (once.hours.times(2), once.disk.times(2), 2 * once.unknown)
    assert once.unknown > 0


def test_a_total_by_hand() -> None:
    step = RunStep("a", ("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25"), ())
    one = Work("k1", "index", NOTHING, "documents", Range(1, 2), "", disk=Range(10, 20))
    two = Work("k2", "train", NOTHING, "pairs", None, "")
    need = Needed("model", "", "", Range(5, 5), "fetch", "model")
    found = total([PlannedStep(step, "to make", work=(one, two)), PlannedStep(step, "to make", work=(one,))], [need])
    assert (found.hours, found.unknown, found.disk) == (Range(2, 4), 1, Range(25, 45))
    assert (found.price, found.calls, found.gpu) == (NOTHING, 0, 3)
    assert list(plan.total_lines({"to make": found, "left out": Total()})) == [
        "to make: 2 to 4 hours of one core, without 1 piece of work whose time is not known, hours of a GPU not known, "
        "25 to 45 MB of disk, 0.082 to 0.16 dollars"
    ]
    nothing = {"to make": Total(), "left out": Total()}
    assert list(plan.total_lines(nothing)) == ["to make: 0 hours of one core, 0 MB of disk"]
    rest = replace(found, disk=Range(2500, 3500), price=Range(1, 1), calls=7)
    both = {"to make": Total(), "left out": rest, "with what is left out": rest}
    assert [line.partition(":")[0] for line in plan.total_lines(both)] == ["to make", "left out"]
    assert list(plan.total_lines(both))[1].endswith(
        "2.5 to 3.5 GB of disk, 7 calls, 1 dollars, in all 1.1 to 1.2 dollars"
    )


def test_text_and_json_say_the_same(own: Callable[..., Paper]) -> None:
    found = plan_paper(own({**SINGLE, **BOTH, **ABSENT, **FAILS}), made=lambda step: step.title.startswith("bm25"))
    content = json.loads(json.dumps(plan_json(found)))
    lines = list(plan_lines(found))
    assert lines[0] == "own: 7 steps, 1 made, 5 to make, 1 left out"
    numbered = [line.split(maxsplit=1)[1] for line in lines if line[:4].strip().isdigit()]
    assert len(numbered) == len(content["steps"]) == 7
    for line, each in zip(numbered, content["steps"], strict=True):
        assert line.startswith(each["state"]) and each["title"] in line
        assert each["why"] in line
    for need in content["needs"]:
        title = {"here": "here", "fetch": "can be fetched", "by hand": "by hand"}[need["state"]]
        title = "fetched first" if need["fetched first"] else title
        assert sum(line.startswith(f"{title} ") and f" {need['name']} (" in line for line in lines) == 1
    for each in content["steps"]:
        assert "               for " + "; ".join(f"1: {row['row']}" for row in each["rows"]) in lines
    unknown = sum(len(step["time not known"]) for step in content["steps"] if step["state"] == "to make")
    assert content["to make"]["pieces of work whose time is not known"] == unknown > 0
    (last,) = (line for line in lines if line.startswith("to make"))
    assert f"without {unknown} pieces of work whose time is not known" in last


def test_only_what_a_step_to_make_needs_is_fetched_first(own: Callable[..., Paper]) -> None:
    both = {"system": "fusion-rrf", "inputs": ["one: overlap", "hub"]}
    paper = own({**SINGLE, **HUB, "both": both})
    found = plan_paper(paper, made=lambda step: step.title != "hub-encoder on mini-task1")
    assert [need.name for need in found.fetchable] == ["nobody/nothing-to-find"]
    absent = replace(paper.available, corpus="arqmath-posts") if paper.available else None  # by hand: nothing to make
    found = plan_paper(replace(paper, available=absent))
    assert (found.in_state("to make"), found.fetchable) == ((), ())
    (line,) = (line for line in plan_lines(found) if "nothing-to-find (" in line)
    assert line.startswith("can be fetched nobody/nothing-to-find (licence: not known): Hugging Face hub")


@pytest.mark.slow
def test_rows_of_one_command_are_one_step() -> None:
    """Three steps of MIRMU and MSM were there twice: a row of table 3 has the system of one of table 2."""
    found, _ = paper_steps(load_paper("mirmu-msm"))
    assert len(found) == 95
    single = [step for step in found if not step.reads()]
    assert len({step.command for step in single}) == len({step.file for step in single}) == len(single)
    (step,) = (step for step in single if step.file == "arqmath-3-task1/mirmu-minilm-mathberta.run")
    rows = ["1: MiniLM+MathRoBERTa-auto-both-A", "2: mirmu 3: MathBERTa ReRanker", "3: fine 1: MathBERTa ReRanker"]
    assert sorted(map(str, step.rows)) == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "count"),
    [("arqmath-3-task1", 25), ("arqmath-3", 25), ("arqmath", 95), ("arqmath-1-task1, arqmath-2", 70)],
)
def test_collections_by_a_beginning_of_their_names(given: str, count: int) -> None:
    part = Selection(collections=tuple(given.split(", ")))
    assert len(paper_steps(load_paper("mirmu-msm"), part)[0]) == count


@pytest.mark.slow
def test_a_collection_of_no_row() -> None:
    with pytest.raises(NothingToMakeError, match="no command makes a row on mini-"):
        paper_steps(load_paper("mirmu-msm"), Selection(collections=("mini",)))


@pytest.mark.parametrize("name", ["leansearch", "mathlib4", "mini-theorems"])
def test_collections_at_small_scale_are_those_in_place_of_the_papers(name: str) -> None:
    found, _ = paper_steps(load_paper("mathlib4"), Selection(collections=(name,)), HERE)
    assert {step.runs[0].collection for step in found} == {"mini-theorems"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arq", "arqmath-", "arqmath-3-task", ""])
def test_a_beginning_ends_where_a_part_of_a_name_does(name: str) -> None:
    with pytest.raises(HarnessError, match=f"key 'collections' is '{name}'; (known:|did you mean) "):
        paper_steps(load_paper("mirmu-msm"), Selection(collections=(name,)))


# ---- small scale ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_small_scale_is_small_where_the_hub_is_reachable() -> None:
    """Of MIRMU's systems, those with the declared model of a package and those of words."""
    found = plan_paper(load_paper("mirmu-msm"), scale=HERE)
    made = {each.step.runs[0].name for each in found.in_state("to make")}
    assert made == {"msm-tfidf", "msm-bm25", "msm-sum", "msm-bm25-fine", "mirmu-minilm"}
    assert found.totals["to make"].hours.high < 0.2
    assert all(need.where == f"harness fetch {need.source}" for need in found.fetchable)  # none of the hub
    (why,) = {each.why for each in found.in_state("left out") if each.step.runs[0].name == "mirmu-minilm-mathberta"}
    assert "the model witiko/mathberta (not at small scale)" in why


@pytest.mark.slow
def test_no_paid_call_at_small_scale_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    paper, part = load_paper("mathlib4"), Selection(tables=("4",))
    free = plan_paper(paper, part, HERE)
    assert free.totals["to make"].calls == 0
    whys = {each.step.runs[0].system: each.why for each in free.in_state("left out")}
    assert whys["mathlib4-openai-v2"] == "needs paid calls of openai-ada-002 (with budget=DOLLARS)"
    assert plan_paper(paper, part, HERE, budget=1.0).totals["to make"].calls > 0


@pytest.mark.slow
def test_formula_search_is_estimated_by_the_corpus_that_is_run() -> None:
    """Its configuration says some 40 CPU-minutes for two trainings; the corpus has 62,233 formulas."""
    found = plan_paper(load_paper("mathamr-plus"), Selection(tables=("4.21",)), HERE)
    (step,) = found.steps
    assert step.state == "to make"
    assert 40 / 60 < step.hours.high < 6
    counts = {work.title: work.count for work in step.work}
    assert counts["encode linearised graphs by all-minilm-l6-v2"] == Range(62_233, 62_233)
    assert counts["train mathamr-plus"] == Range(2 * 6300 * 4, 2 * 6300 * 7)


# ---- experiments ----------------------------------------------------------------------------------------------------


@pytest.fixture
def formula_search(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """MathAMR+ where all that formula search needs is here."""
    monkeypatch.setattr("harness.papers.plan.needed_by", lambda *_: iter(()))
    return load_paper("mathamr-plus")


@pytest.mark.slow
def test_an_experiment_on_another_corpus_than_the_papers_has_no_number(formula_search: Paper) -> None:
    found = plan_paper(formula_search, seeds=1)
    why = {each.step.experiment: each.why for each in found.in_state("left out")}
    said = "the paper searched the 28,320,920 formulas of the whole collection, which no configuration has, in place of"
    assert why == {"mathamr-formula-search": f"{said} mse-formulas"}  # each other experiment has a number
    ours = ("Ours / MathAMR+",)
    run = CellRun(ours, "42", "arqmath-3-task2", "official", "mse-formulas", Path("a.run"))
    made = {"mathamr-formula-search": [run]}
    assert runs_of_rows(formula_search, made) == []
    small = formula_search.at_small_scale()
    assert small is not None
    assert [each.paths for each in runs_of_rows(small, made)] == [(Path("a.run"),)]
    whole = replace(run, corpus="all-formulas")
    assert [each.paths for each in runs_of_rows(formula_search, {"mathamr-formula-search": [whole]})] == [(run.path,)]


@pytest.mark.slow
def test_an_experiment_without_a_printed_run_that_can_be_made_is_left_out(
    own: Callable[..., Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = own({"one: overlap": {"system": "overlap"}}, experiments={"mini": ["1"]})
    (step,) = plan_paper(paper, Selection(rows="any order*")).steps
    assert (step.state, step.why) == ("left out", "none of its runs that can be made has a printed number")
    printed = replace(paper, cells=(*paper.cells, replace(paper.cells[0], system="any order")))
    assert plan_paper(printed, Selection(rows="any order*")).steps[0].state == "to make"


def test_nothing_at_the_scale(own: Callable[..., Paper]) -> None:
    with pytest.raises(NothingToMakeError, match="paper own: nothing replaces its resources at the scale here"):
        plan_paper(own(SINGLE), scale=HERE)


def test_at_the_scale_here_the_corpus_is_replaced(own: Callable[..., Paper]) -> None:
    paper = own(SINGLE, here={"corpus": "mini-formulas", "says": "small", "systems": {"bm25": ["system.k1=0.7"]}})
    found = [each.step for each in plan_paper(paper, scale=HERE).steps]
    assert [step.runs[0].corpus for step in found] == ["mini-formulas"] * 2
    assert [step.runs[0].settings for step in found] == [(), (("k1", 0.7),)]


# ---- what is needed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "name", "state", "where"),
    [
        ({"model": "all-minilm-l6-v2"}, "all-minilm-l6-v2", None, "harness fetch all-minilm-l6-v2"),
        ({"model": "nobody/none"}, "nobody/none", "fetch", "Hugging Face hub: hf download nobody/none"),
        ({"model": "a-folder"}, "a-folder", "by hand", "a folder a-folder, or system.model=FOLDER"),
        ({"model": "nobody/none", "by_hand": "ask"}, "nobody/none", "by hand", "ask"),
        ({"model": "openai-3-small"}, "a key for text-embedding-3-small", "by hand", "set OPENAI_API_KEY"),
    ],
)
def test_models_and_keys(
    system: dict[str, str], name: str, state: str | None, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    encoder = {"_target_": "harness.systems.dense.bi_encoder.BiEncoder", **system}
    (need,) = needed_by([encoder], [], [])
    assert (need.name, need.where) == (name, where)
    assert state in (None, need.state)
    assert bool(need.source) == (need.state == "fetch" or need.source == "all-minilm-l6-v2")
    if name.startswith("a key"):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        assert next(needed_by([encoder], [], [])).state == "here"


@pytest.mark.parametrize(
    ("corpus", "state", "where"),
    [
        ("mini-answers", "here", "harness fetch mini-answers"),
        ("stacks", "fetch", "harness fetch stacks"),
        ("saber-math", "fetch", "the data set sabermath/SaberMath-documents (hub)"),
        ("mirb-msedup", "fetch", "the data set hcju/msedup (hub): harness fetch mirb-msedup"),
        ("mathlib-checkout", "by hand", "a Mathlib checkout: git clone "),
        ("arqmath-posts", "by hand", "manual download: get Posts.V1.3.xml from the organisers"),
    ],
)
def test_corpora(corpus: str, state: str, where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    for name in ("HARNESS_MIRROR", "HARNESS_MATHLIB"):
        monkeypatch.delenv(name, raising=False)
    (need,) = needed_by([], [corpus], [])
    assert (need.name, need.state, need.source) == (f"corpus {corpus}", state, corpus if state != "by hand" else "")
    assert where in need.where


@pytest.mark.parametrize(
    ("parser", "absent", "where"),
    [
        ("dependency", "", "pip install 'mathir-harness[graphs]'"),
        ("dependency", "spacy", "spacy not installed: pip install 'mathir-harness[graphs]'"),
        ("amrlib:folder", "", "pip install 'mathir-harness[amr]'"),
        ("amrlib:folder", "amrlib", "parser amrlib is not installed: pip install 'mathir-harness[amr]', and bring a"),
        ("transition-amr", "transition_amr_parser", "pip install --no-deps transition-neural-parser"),
    ],
)
def test_a_parser_that_is_not_installed_is_to_be_brought(
    parser: str, absent: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module, *_: None if module == absent else module)
    monkeypatch.setattr("harness.systems.states.installed", lambda _: True)
    needs = needed_by([{"parser": parser, "needs": "harness.systems.mathamr.graphs.parsers"}], [], [])
    (need,) = (need for need in needs if need.name == f"parser {parser}")
    assert need.state == ("by hand" if absent else "here")
    assert where in need.where


# ---- archives -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_published_runs_are_made_unless_asked_for() -> None:
    paper = load_paper("crossmath")
    (step,) = paper_steps(paper)[0]
    assert archived(paper, step)
    for published in (True, False):
        found = plan_paper(paper, Selection(tables=("2",)), published=published)
        assert ([each.state for each in found.steps] == ["made"]) == published
    assert not archived(paper, RunStep("x", step.words, (PrintedRow("9", "x"),)))
    assert not archived(load_paper("mathlib4"), paper_steps(load_paper("mathlib4"))[0][0])
