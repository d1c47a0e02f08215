"""Plans of papers: states of steps and of what they need, work counted once, totals by hand, text as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from making_tools import ABSENT, BOTH, FAILS, SINGLE, lay, paper_files

from harness.io import rehearsal
from harness.papers.needs import Needed, needed_by
from harness.papers.paper import Paper, load_paper
from harness.papers.plan import PaperPlan, PlannedStep, archived, plan_json, plan_lines, plan_paper, total
from harness.papers.rates import NOTHING, Range
from harness.papers.report.estimates import amount
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
@pytest.mark.parametrize("paper", ["mirmu-msm", "mathlib4", "saber-math", "mathamr-plus"])
def test_totals_are_sums_by_hand_and_shared_work_counts_once(paper: str) -> None:
    found = plan_paper(load_paper(paper), seeds=1)
    keys = [work.key for each in found.steps for work in each.work]
    assert len(keys) == len(set(keys))
    calls = [(call.endpoint, call.what) for each in found.steps for call in each.calls]
    assert len(calls) == len(set(calls))
    whole = total(found.steps)
    known = [work.hours for each in found.steps for work in each.work if work.hours is not None]
    assert whole.hours.low == pytest.approx(sum(each.low for each in known))
    assert whole.hours.high == pytest.approx(sum(each.high for each in known))
    assert whole.unknown == len(keys) - len(known)
    assert whole.calls == sum(call.calls for each in found.steps for call in each.calls)
    content = plan_json(found)
    assert [each["hours of one core"]["high"] for each in content["steps"]] == [each.hours.high for each in found.steps]
    assert content["left out"]["hours of one core"]["high"] == pytest.approx(
        sum(each.hours.high for each in found.in_state("left out"))
    )


def test_a_total_by_hand() -> None:
    step = RunStep("a", ("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25"), ())
    one = Work("k1", "index", NOTHING, "documents", Range(1, 2), "", disk=Range(10, 20))
    two = Work("k2", "train", NOTHING, "pairs", None, "")
    need = Needed("model", "", "", Range(5, 5), "fetch", "model")
    found = total([PlannedStep(step, "to make", work=(one, two)), PlannedStep(step, "to make", work=(one,))], [need])
    assert (found.hours, found.unknown, found.disk) == (Range(2, 4), 1, Range(25, 45))
    assert (found.price, found.calls) == (NOTHING, 0)


def test_text_and_json_say_the_same(own: Callable[..., Paper]) -> None:
    found = plan_paper(own({**SINGLE, **BOTH, **ABSENT, **FAILS}), made=lambda step: step.title.startswith("bm25"))
    content = json.loads(json.dumps(plan_json(found)))
    lines = list(plan_lines(found, amount))
    assert lines[0] == "own: 7 steps, 1 made, 5 to make, 1 left out"
    numbered = [line.split(maxsplit=1)[1] for line in lines if line[:4].strip().isdigit()]
    assert len(numbered) == len(content["steps"]) == 7
    for line, each in zip(numbered, content["steps"], strict=True):
        assert line.startswith(each["state"]) and each["title"] in line
        assert each["why"] in line
    for need in content["needs"]:
        title = {"here": "here", "fetch": "fetched first", "by hand": "by hand"}[need["state"]]
        assert sum(line.startswith(f"{title} ") and f" {need['name']} (" in line for line in lines) == 1
    unknown = sum(len(step["time not known"]) for step in content["steps"] if step["state"] == "to make")
    assert content["to make"]["pieces of work whose time is not known"] == unknown > 0
    (last,) = (line for line in lines if line.startswith("to make"))
    assert f"without {unknown} pieces of work whose time is not known" in last


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


# ---- archives -------------------------------------------------------------------------------------------------------


def test_published_runs_are_made_except_in_a_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = load_paper("crossmath")
    (step,) = paper_steps(paper)[0]
    assert archived(paper, step)
    assert [each.state for each in plan_paper(paper, Selection(tables=("2",))).steps] == ["made"]
    assert not archived(paper, RunStep("x", step.words, (PrintedRow("9", "x"),)))
    assert not archived(load_paper("mathlib4"), paper_steps(load_paper("mathlib4"))[0][0])
    (tmp_path / rehearsal.ABOUT).write_text(rehearsal.BEGINNING)
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv(rehearsal.VARIABLE, str(tmp_path))
    assert not archived(paper, step)
