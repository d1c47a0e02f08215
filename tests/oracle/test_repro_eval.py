"""The measures of `compare --reproduction` against the package repro_eval, from the same files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.collections.load import local_collection
from harness.data.run_writers import write_qrels, write_run
from harness.data.trec import Qrels, Run
from harness.experiments.evaluate import evaluate, reproduce
from harness.experiments.task import task
from harness.scoring.reproduction import RunReproduction

with warnings.catch_warnings():  # names of modules that SciPy has moved
    warnings.simplefilter("ignore")
    theirs = pytest.importorskip("repro_eval.Evaluator", reason="repro_eval is not installed")

MEASURES = {"nDCG": "nDCG", "AP": "AP", "P@5": "P@5", "RR": "RR", "Bpref": "Bpref", "R@100": "R@100"}
DEPTH = 40


def files(folder: Path, seed: int, topics: int = 12, docs: int = 60) -> dict[str, Path]:
    """Judgments, and four runs of which the new ones are the old ones with noise."""
    rng = np.random.default_rng(seed)
    names = [f"d{n:02}" for n in range(docs)]
    topic_names = [f"t{n:02}" for n in range(topics)]
    grades = {
        t: {d: int(g) for d, g in zip(names, rng.choice(4, docs, p=[0.85, 0.05, 0.05, 0.05]), strict=True)}
        for t in topic_names
    }
    write_qrels(Qrels.from_dict("e", grades), folder / "qrels.txt")
    signal = {t: np.array([grades[t][d] for d in names]) + rng.normal(0, 1, docs) for t in topic_names}
    noise = {"baseline": 3.0, "advanced": 0.5, "new-baseline": 3.5, "new-advanced": 1.0}
    out = {"qrels": folder / "qrels.txt"}
    for name, size in noise.items():
        scores = {t: signal[t] + rng.normal(0, size, docs) for t in topic_names}
        top = {t: np.argsort(-values)[:DEPTH] for t, values in scores.items()}
        run = {t: {names[at]: float(scores[t][at]) for at in rows} for t, rows in top.items()}
        out[name] = folder / f"{name}.run"
        write_run(Run.from_dict(name, run), out[name])
    return out


def ours(found: Mapping[str, Path], other: Mapping[str, Path] | None = None) -> RunReproduction:
    """As the command does: one evaluation of four runs, or one of each side on its own judgments."""

    def scored(paths: Mapping[str, Path], *runs: str) -> Any:  # noqa: ANN401
        bench = task(local_collection(paths["qrels"]), measures=list(MEASURES))
        return evaluate(bench, *(paths[name] for name in runs))

    if other is None:
        both = scored(found, "advanced", "new-advanced", "baseline", "new-baseline")
        return reproduce(both, both, persistence=0.8)
    return reproduce(scored(found, "advanced", "baseline"), scored(other, "new-advanced", "new-baseline"))


def paths(found: Mapping[str, Path], other: Mapping[str, Path]) -> dict[str, str]:
    return {
        "qrels_orig_path": str(found["qrels"]),
        "run_b_orig_path": str(found["baseline"]),
        "run_a_orig_path": str(found["advanced"]),
        "run_b_rep_path": str(other["new-baseline"]),
        "run_a_rep_path": str(other["new-advanced"]),
    }


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_reproduction(tmp_path: Path, seed: int) -> None:
    found = files(tmp_path, seed)
    expected = theirs.RpdEvaluator(**paths(found, found))
    expected.trim()
    expected.evaluate()
    made = ours(found)
    orders = {each.topic: each for each in made.orders}
    ktu = expected.ktu(per_topic=True)["advanced"]
    assert {topic: each.ktu for topic, each in orders.items()} == pytest.approx(ktu)
    rbo = expected.rbo(p=0.8, depth=made.depth, per_topic=True)["advanced"]
    assert {topic: each.rbo_cut for topic, each in orders.items()} == pytest.approx(rbo)
    rmse, nrmse = expected.rmse()["advanced"], expected.nrmse()["advanced"]
    ratio, delta, p = expected.er(), expected.dri(), expected.ttest()["advanced"]
    for each in made.effects:
        name = MEASURES[each.measure]
        assert each.rmse == pytest.approx(rmse[name], abs=1e-9), name
        assert each.nrmse == pytest.approx(nrmse[name], abs=1e-9), name
        assert each.effect_ratio == pytest.approx(ratio[name], rel=1e-6), name
        assert each.delta_ri == pytest.approx(delta[name], abs=1e-9), name
        assert each.p is not None and not math.isnan(p[name])
        assert each.p == pytest.approx(p[name], rel=1e-6), name


@pytest.mark.slow
def test_a_replication(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    found, other = files(folders[0], 3), files(folders[1], 4, topics=9)
    expected = theirs.RplEvaluator(**paths(found, other), qrels_rpl_path=str(other["qrels"]))
    expected.trim()
    expected.evaluate()
    ratio, delta, p = expected.er(), expected.dri(), expected.ttest()["advanced"]
    made = ours(found, other)
    assert not made.paired
    for each in made.effects:
        name = MEASURES[each.measure]
        assert (each.rmse, each.nrmse) == (None, None)
        assert each.effect_ratio == pytest.approx(ratio[name], rel=1e-6), name
        assert each.delta_ri == pytest.approx(delta[name], abs=1e-9), name
        assert each.p == pytest.approx(p[name], rel=1e-6), name
