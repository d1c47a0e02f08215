"""What rows cost, of runs that are made of several systems, and how long cells may take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.cli.cells import Forecast, time_left
from harness.data.trec import Run
from harness.experiments import costs
from harness.experiments.experiment import ExperimentCell
from harness.experiments.produce import produce
from harness.experiments.task import task
from harness.store import cost, sidecar
from harness.systems.base import Request
from harness.systems.build import load_system

# BM25 takes 10 ms a query and MathAMR+ 30; the latter alone has said its rate and the size of its index.
SIDE = {
    cost.LATENCY: {"A.1": 0.04, "A.2": 0.04},
    cost.RATE: 33.3,
    cost.INDEX: 1000,
    cost.STORED: 5000,
    cost.VECTORS: 7,
    cost.PARAMETERS: 11,
}


def of(side: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, float | None]:
    monkeypatch.setattr(sidecar, "costs", lambda path: dict(side))
    found = costs.of_run(Path("a.run"))
    return {name: costs.COLUMNS[name].of([found]) for name in ("latency", "rate", "index", "vectors", "parameters")}


def test_a_fusion_does_not_cost_what_one_of_its_systems_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(SIDE, monkeypatch) == {"latency": 0.04, "rate": 33.3, "index": 1000.0, "vectors": 7.0, "parameters": 11.0}
    own = {name: SIDE[name] for name in SIDE if name not in (cost.LATENCY, cost.STORED)}
    whole = {name: SIDE[name] for name in SIDE if name not in own}
    fused = of(whole | {cost.PARTS: {"mathamr": own, "nested": {cost.PARTS: {"b": {cost.VECTORS: 9}}}}}, monkeypatch)
    assert fused.pop("rate") == pytest.approx(25.0)  # of the latencies, which add up
    assert fused == {"latency": 0.04, "index": None, "vectors": 9.0, "parameters": 11.0}
    assert costs.COLUMNS["pairs"].of([{cost.PAIRS: 900}, {}]) == 900.0
    # Of systems that say nothing, all that they used of the store is known.
    plain = {cost.LATENCY: SIDE[cost.LATENCY], cost.STORED: 5000}
    assert of(plain, monkeypatch)["index"] == 5000.0


def test_trainings_of_a_fusion_add_up() -> None:
    log = [{"epoch": 1, "training loss": 0.5}]
    side = {cost.PARTS: {"a": {cost.EPOCHS: [2.0, 4.0], cost.LOG: log}, "b": {cost.EPOCHS: [6.0], cost.TOGETHER: 8}}}
    assert costs.COLUMNS["training"].of([side]) == 12.0
    assert costs.COLUMNS["epoch"].of([side]) == 4.0
    assert costs.losses(side) == {"a, epoch: training loss": [(1.0, 0.5)]}
    assert (costs.together(side), costs.together({})) == (8, 1)


@pytest.mark.slow
def test_each_system_of_a_fusion_keeps_its_notes() -> None:
    with cost.measuring() as meter:
        for system, rate in (("a", 3.0), ("b", 5.0)):
            with cost.part(system):
                cost.note(cost.RATE, rate)
                cost.note(f"{system}: texts cut", 1)
        cost.note("whole", True)
    assert meter.notes == {
        cost.PARTS: {"a": {cost.RATE: 3.0}, "b": {cost.RATE: 5.0}},
        "a: texts cut": 1,
        "b: texts cut": 1,
        "whole": True,
    }


@pytest.mark.slow
def test_the_latency_of_a_fusion_is_unknown_if_that_of_a_part_is(tmp_path: Path) -> None:
    """A run file, or a system that does not record latencies, beside one that does."""
    mini = task("mini-task1", "mini-answers")
    produce("tfidf-ltn", mini, runs=tmp_path)

    def unmeasured(request: Request) -> Run:
        return Run.from_dict("unmeasured", {topic.id: {"a1088": 1.0} for topic in request.topics})

    with cost.measuring() as meter:
        with cost.part("bm25"):
            load_system("bm25")(Request(mini.topics, mini.corpus, tmp_path))
        assert (len(meter.latency), meter.partial) == (42, False)
        with cost.part("unmeasured"):
            unmeasured(Request(mini.topics, mini.corpus, tmp_path))
    assert meter.partial
    for name, run, known in (("both", "tfidf-ltn", True), ("file", str(tmp_path / "mini-task1/tfidf-ltn.run"), False)):
        produce(load_system("fusion-rrf", runs=["bm25", run], name=name), mini, runs=tmp_path)
        side = costs.of_run(tmp_path / f"mini-task1/{name}.run")
        assert len(costs.latencies([side])) == 42 * known
        assert (costs.COLUMNS["latency"].of([side]) is not None) is known
        assert (costs.COLUMNS["rate"].of([side]) is not None) is known


def test_a_cell_is_estimated_by_those_that_are_nearest_to_it() -> None:
    """By another seed of the same labels, else by its condition, else by all."""

    def cell(*labels: str, seconds: float | None = None, reason: str = "") -> Forecast:
        return Forecast(ExperimentCell(labels, None, ()), seconds, reason)

    done = [cell("m", "1000", seconds=10), cell("m", "20000", seconds=200), cell("bm25", "1000", seconds=3)]
    waiting = [cell("m", "1000"), cell("m", "20000"), cell("m", "20000"), cell("m", "5000"), cell("e5", "1000")]
    lost = cell("m", "2500", reason="needs a GPU")
    assert time_left([*done, *waiting, lost]) == (
        "5 cells left to run: about 9 min 46 s (3 by finished cells of the same labels, "  # 10 + 2 * 200 + 105 + 71 s
        "1 by finished cells of their condition, 1 by the mean of all finished cells)"
    )
    none = "5 cells left to run; no cell is finished yet, by which their time could be estimated"
    assert time_left([*waiting, lost]) == none
    assert time_left([*done, lost]) == "nothing is left that can be run here"
