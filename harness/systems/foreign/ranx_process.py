"""The process in which ranx fuses runs.

ranx sorts with an unstable sort and takes the order of Python's sets as an order of documents. Here it gets runs that
are sorted already, and sets are sorted, so that its results depend on their input only.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from harness.systems.foreign.process import serve_job

INTERPRETED = "NUMBA_DISABLE_JIT"
Rankings = Mapping[str, Sequence[tuple[str, float]]]
_PLAIN = ("probs", "log_odds", "map_scores")  # parameters that ranx learns as arrays


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Fuses runs; learns parameters first if there is training data.

    Parameters
    ----------
    job : `runs`, topic -> pairs of document and score, sorted, with the same topics in each; `method`, `norm` and
        `params` of ranx; `training`: `runs`, `qrels` (topic -> document -> grade) and `metric`, or None.

    Returns
    -------
    `scores`, topic -> document -> score; and `params`, those given or learned, as text.
    """
    ranx: Any = importlib.import_module("ranx")
    for name in ("condorcet", "weighted_condorcet", "bordafuse", "weighted_bordafuse"):
        module: Any = importlib.import_module(f"ranx.fusion.{name}")
        module.get_candidates = _candidates
    importlib.import_module("ranx.normalization.borda_norm").__dict__["get_candidates"] = _candidates
    method, norm, params = job["method"], job["norm"], dict(job["params"])
    if (training := job["training"]) is not None:
        judged = ranx.Qrels(training["qrels"])
        runs = [_run(ranx, rankings) for rankings in training["runs"]]
        params |= ranx.optimize_fusion(judged, runs, norm=norm, method=method, metric=training["metric"])
    fused = ranx.fuse([_run(ranx, rankings) for rankings in job["runs"]], norm=norm, method=method, params=params)
    scores = {topic: {str(doc): float(score) for doc, score in docs.items()} for topic, docs in fused.run.items()}
    return {"scores": scores, "params": {key: _json_value(value) for key, value in params.items() if key not in _PLAIN}}


def _run(ranx: Any, rankings: Rankings) -> Any:  # noqa: ANN401
    """Returns a run of ranx whose documents have the order of the rankings, also those of equal scores."""
    run = ranx.Run()
    if os.environ.get(INTERPRETED) == "1":
        run.run = {topic: dict(pairs) for topic, pairs in rankings.items()}
    else:
        import numpy as np

        common: Any = importlib.import_module("ranx.data_structures.common")
        typed: Any = importlib.import_module("numba.typed").List
        longest = max((len(doc) for pairs in rankings.values() for doc, _ in pairs), default=1)
        docs = [np.array([doc for doc, _ in pairs], dtype=f"<U{longest}") for pairs in rankings.values()]
        scores = [np.array([score for _, score in pairs], dtype=float) for pairs in rankings.values()]
        run.run = common.create_bulk(typed(rankings), typed(docs), typed(scores))
    run.sorted = True
    return run


def _candidates(runs: Sequence[Any]) -> Any:  # noqa: ANN401
    """Returns the documents of each topic in descending order of their ids; ranx returns them in that of a set."""
    typed: Any = importlib.import_module("numba.typed").List
    unicode: Any = importlib.import_module("numba.types").unicode_type
    candidates = [sorted({doc for run in runs for doc in run[topic].keys()}, reverse=True) for topic in runs[0].keys()]  # noqa: SIM118
    return typed([typed(docs) if docs else typed.empty_list(unicode) for docs in candidates])


def _json_value(value: Any) -> Any:  # noqa: ANN401
    """Converts NumPy's numbers, also in lists, to Python's."""
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    return value.item() if hasattr(value, "item") else value


if __name__ == "__main__":
    serve_job(work)
