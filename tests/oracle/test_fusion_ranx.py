"""Agreement with ranx, document by document, on random runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from harness.data.columns import Floats
from harness.data.trec import Run
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import FusionCandidates, fuse

pytestmark = pytest.mark.slow  # ranx compiles on first use
Scores = Mapping[str, Mapping[str, float]]
METHODS: Mapping[str, tuple[candidates.Score, dict[str, object]]] = {
    "rrf 60": (methods.rrf, {"method": "rrf", "params": {"k": 60}}),
    "rrf 3": (partial(methods.rrf, k=3), {"method": "rrf", "params": {"k": 3}}),
    "rank-biased centroids": (
        partial(methods.rank_biased_centroids, phi=0.8),
        {"method": "rbc", "params": {"phi": 0.8}},
    ),
    **{
        f"{name} {ours}": (partial(function, normalization=ours), {"method": theirs, "norm": norm})
        for name, function, theirs in (("combsum", methods.combsum, "sum"), ("combmnz", methods.combmnz, "mnz"))
        for ours, norm in (("none", None), ("min-max", "min-max"), ("z-score", "zmuv"), ("sum", "sum"))
    },
    "interpolation": (
        partial(methods.interpolation, weights=[0.2, 0.5, 0.3]),
        {"method": "wsum", "norm": "min-max", "params": {"weights": [0.2, 0.5, 0.3]}},
    ),
}


@pytest.fixture(scope="module")
def ranx() -> ModuleType:
    module: ModuleType = pytest.importorskip("ranx", reason="ranx is not installed (extra ranx)")
    return module


def random_runs(seed: int) -> Sequence[Scores]:
    """Three runs on the same topics (ranx wants that), of different lengths, no two scores of a topic alike."""
    rng = np.random.default_rng(seed)
    runs = []
    for scale in (1.0, 30.0, 0.01):
        run = {}
        for topic in range(12):
            docs = rng.choice(60, size=rng.integers(2, 45), replace=False).tolist()
            values = (rng.permutation(len(docs)) + rng.random(len(docs)) / 2).tolist()
            run[f"T{topic}"] = {f"d{doc}": scale * (value - 3) for doc, value in zip(docs, values, strict=True)}
        runs.append(run)
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_scores_agree(ranx: ModuleType, name: str) -> None:
    function, how = METHODS[name]
    for seed in range(3):
        runs = random_runs(seed)
        theirs = ranx.fuse(
            [ranx.Run(run, name=str(n)) for n, run in enumerate(runs)], **{"norm": None, **how}
        ).to_dict()
        ours = fuse([Run.from_dict(f"r{n}", run) for n, run in enumerate(runs)], function, "x").to_dict()
        assert ours.keys() == theirs.keys()
        for topic, docs in ours.items():
            assert docs == pytest.approx(theirs[topic], rel=1e-12, abs=1e-12)


def test_a_wrong_formula_would_be_noticed(ranx: ModuleType) -> None:
    """Ranks from 0 instead of 1."""

    def wrong(candidates: FusionCandidates) -> Floats:
        return methods.rrf(candidates, 59)

    runs = random_runs(0)
    theirs = ranx.fuse([ranx.Run(run) for run in runs], norm=None, method="rrf", params={"k": 60}).to_dict()
    ours = fuse([Run.from_dict(f"r{n}", run) for n, run in enumerate(runs)], wrong, "x").to_dict()
    assert any(docs != pytest.approx(theirs[topic], rel=1e-6) for topic, docs in ours.items())
