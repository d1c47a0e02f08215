"""ranx's fusion: ties, agreement with ours, tuning, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_tools import message, topics_of

from harness.data.trec import Qrels, Run
from harness.store.cost import measuring
from harness.systems.base import MARK, Request
from harness.systems.foreign import ranx as adapter
from harness.systems.foreign import ranx_process
from harness.systems.foreign.ranx import METHODS, FusionRanx
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import fuse

needs = pytest.mark.skipif(importlib.util.find_spec("ranx") is None, reason="ranx is not installed (extra ranx)")
Rankings = dict[str, dict[str, float]]
PARAMETERS: Mapping[str, Any] = {"weights": [0.2, 0.5, 0.3], "gamma": 0.5, "sigma": 0.1, "phi": 0.8, "k": 3}
OURS: Mapping[tuple[str, str | None], candidates.Score] = {
    ("rrf", None): partial(methods.rrf, k=3),
    ("rbc", None): partial(methods.rank_biased_centroids, phi=0.8),
    ("sum", None): partial(methods.combsum, normalization="none"),
    ("sum", "min-max"): partial(methods.combsum, normalization="min-max"),
    ("sum", "zmuv"): partial(methods.combsum, normalization="z-score"),
    ("sum", "sum"): partial(methods.combsum, normalization="sum"),
    ("mnz", "min-max"): partial(methods.combmnz, normalization="min-max"),
    ("wsum", "min-max"): partial(methods.interpolation, weights=[0.2, 0.5, 0.3], normalization="min-max"),
}


def made(seed: int, ties: bool) -> list[Run]:
    """Three runs of different lengths; each lacks another topic."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(3):
        rankings: Rankings = {}
        for topic in range(4):
            docs = rng.choice(25, size=rng.integers(4, 20), replace=False).tolist()
            scores = rng.integers(1, 5, len(docs)) if ties else rng.permutation(len(docs)) + 1.5
            rankings[f"T{topic}"] = {f"d{d:02}": float(s) for d, s in zip(docs, scores, strict=True)}
        del rankings[f"T{number + 1}"]
        runs.append(Run.from_dict(f"r{number}", rankings))
    return runs


def system(method: str, norm: str | None = None, **how: Any) -> FusionRanx:  # noqa: ANN401
    params = {name: PARAMETERS[name] for name in METHODS[method].parameters}
    return FusionRanx(["a", "b", "c"], method, norm, **({"params": params} | how))


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """Answers the jobs by a sum in this process; returns them."""
    jobs: list[Mapping[str, Any]] = []

    def answer(what: str, module: str, job: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
        jobs.append(json.loads(json.dumps(job)))
        scores: Rankings = {}
        for run in job["runs"]:
            for topic, pairs in run.items():
                for doc, score in pairs:
                    scores.setdefault(topic, {}).setdefault(doc, 0.0)
                    scores[topic][doc] += score
        return {"scores": scores, "params": {"k": 7}}

    monkeypatch.setattr(adapter, "process_answer", answer)
    monkeypatch.setattr(adapter, "missing", lambda: ())
    return jobs


# ---- agreement ------------------------------------------------------------------------------------------------------


SCRIPT = """
import json, sys
from harness.systems.foreign import ranx_process
print(json.dumps([ranx_process.work(job) for job in json.load(sys.stdin)]))
"""


def answered(monkeypatch: pytest.MonkeyPatch, calls: Sequence[Callable[[], Run]]) -> list[Run]:
    """Returns the runs of calls of `fused`, whose jobs are done in one process: to import ranx takes seconds."""
    jobs: list[Mapping[str, Any]] = []

    class LaterError(Exception):
        pass

    def recorded(what: str, module: str, job: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        assert environment == {"PYTHONHASHSEED": "0", ranx_process.INTERPRETED: "1"}
        jobs.append(job)
        raise LaterError

    monkeypatch.setattr(adapter, "process_answer", recorded)
    for call in calls:
        with pytest.raises(LaterError):
            call()
    answers = iter(worked(jobs))
    monkeypatch.setattr(adapter, "process_answer", lambda *_: next(answers))
    return [call() for call in calls]


def worked(jobs: Sequence[Mapping[str, Any]], seed: str = "0") -> list[dict[str, Any]]:
    environment = {**os.environ, ranx_process.INTERPRETED: "1", "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs
@pytest.mark.slow
def test_rankings_are_ours_where_both_have_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(runs, *case) for runs in (made(1, ties=False), made(1, ties=True)) for case in OURS]
    calls = [partial(system(method, norm).fused, runs) for runs, method, norm in cases]
    for (runs, method, norm), theirs in zip(cases, answered(monkeypatch, calls), strict=True):
        ours = fuse(runs, OURS[method, norm], "x")
        assert ours.topics == theirs.topics
        assert theirs.score == pytest.approx(ours.score, rel=1e-6, abs=1e-9), (method, norm)
        assert ours.doc.tolist() == theirs.doc.tolist(), (method, norm)


# ---- the adapter ----------------------------------------------------------------------------------------------------


def test_runs_are_given_in_the_order_of_trec_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = in_this_process(monkeypatch)
    runs = [
        Run.from_dict("a", {"T1": {"d1": 2.0, "d3": 2.0, "d2": 3.0}, "T2": {"d9": 1.0}}),
        Run.from_dict("b", {"T1": {"d4": 16777217.0, "d5": 16777216.0}}),  # equal as float32
    ]
    run = FusionRanx(["a", "b"], "rrf", depth=2).fused(runs)
    assert jobs[0]["runs"] == [
        {"T1": [["d2", 3.0], ["d3", 2.0]], "T2": [["d9", 1.0]]},
        {"T1": [["d5", 16777216.0], ["d4", 16777217.0]], "T2": []},
    ]
    assert (jobs[0]["method"], jobs[0]["norm"], jobs[0]["params"], jobs[0]["training"]) == ("rrf", None, {}, None)
    assert {topic: list(docs) for topic, docs in run.to_dict().items()} == {"T1": ["d4", "d5"], "T2": ["d9"]}


def test_equal_scores_are_ordered_by_id_and_no_score_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)
    third = 1 / 3
    runs = [Run.from_dict(n, {"T": docs}) for n, docs in (("a", {"x": third, "y": 0.1}), ("b", {"x": 0.1, "y": third}))]
    run = FusionRanx(["a", "b"], "sum").fused(runs)
    assert (run.doc.tolist(), len(set(run.score.tolist()))) == ([b"y", b"x"], 1)
    monkeypatch.setattr(adapter, "process_answer", lambda *_: {"scores": {"T": {"x": 1.0}}, "params": {}})
    said = message(lambda: FusionRanx(["a", "b"], "sum", "zmuv").fused(runs))
    assert said == "system fusion-ranx: ranx's sum and norm=zmuv gives no finite score: topic 'T', document 'y'"


def test_training_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = in_this_process(monkeypatch)
    for name, text in {
        "a": "T1 Q0 d1 1 1 a\n",
        "b": "T1 Q0 d2 1 1 b\n",
        "ta": "L1 Q0 d1 1 2 a\nL2 Q0 d1 1 1 a\n",
        "tb": "L1 Q0 d2 1 1 b\n",
    }.items():
        (tmp_path / name).write_text(text)
    runs, training_runs = ([str(tmp_path / name) for name in names] for names in (("a", "b"), ("ta", "tb")))
    qrels = Qrels.from_dict("q", {"L1": {"d2": 2, "d3": 0}, "L3": {"d1": 1}})
    fusion = FusionRanx(runs, "rrf", training_runs=training_runs, metric="map", name="tuned")
    with measuring() as meter:
        run = fusion(Request(topics_of(T1="t"), None, tmp_path, training=qrels))
    assert jobs[0]["training"] == {
        "runs": [{"L1": [["d1", 2.0]]}, {"L1": [["d2", 1.0]]}],
        "qrels": {"L1": {"d2": 2, "d3": 0}},
        "metric": "map",
    }
    assert run.name == "tuned"
    assert meter.notes["tuned: parameters that ranx learned"] == {"k": 7}
    assert fusion.reads().keys() == {*runs, *training_runs}
    shared = Qrels.from_dict("q", {"T1": {"d1": 1}, "L1": {"d1": 1}})
    assert fusion(Request(topics_of(T1="t"), None, tmp_path, training=shared)).name == f"tuned{MARK}"
    said = message(lambda: fusion(Request(topics_of(T1="t"), None, tmp_path)))
    assert said == "system tuned: ranx's rrf needs training judgments (or the key 'params.k')"
    said = message(lambda: FusionRanx(runs, "mapfuse")(Request(topics_of(T1="t"), None, tmp_path, training=qrels)))
    assert said == "system fusion-ranx: ranx's mapfuse needs the key 'training_runs'"
    other = Qrels.from_dict("q", {"L9": {"d1": 1}})
    said = message(lambda: fusion(Request(topics_of(T1="t"), None, tmp_path, training=other)))
    assert said == "fusion: none of the training judgments' topics is answered by the training runs"


def test_a_process_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = made(1, ties=False)
    if importlib.util.find_spec("ranx") is None:
        said = message(lambda: system("rrf").fused(runs))
        assert said == "ranx is not installed: pip install 'mathir-harness[ranx]'"
        return
    monkeypatch.setenv("PYTHONSTARTUP", "")
    monkeypatch.setattr(ranx_process, "__name__", "harness.systems.foreign.no_such_module")
    said = message(lambda: system("rrf").fused(runs))
    assert said.startswith("system fusion-ranx: ranx ended with status 1: ")
    assert said.endswith("No module named harness.systems.foreign.no_such_module")
