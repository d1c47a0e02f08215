"""The fusion algorithms of ranx (Bassani and Romelli, CIKM 2022), with its tuning.

Runs are given to ranx in trec_eval's order: float32 score descending, then document id descending. Equal scores that
ranx returns are in that order, too. Where a method exists here as well, the rankings are equal
(`harness.systems.fusion`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, suggestion
from harness.io import checks
from harness.store.cost import note, phase
from harness.systems.foreign import ranx_process
from harness.systems.foreign.process import process_answer
from harness.systems.fusion.candidates import DEPTH, FusionCandidates, align_results, to_run
from harness.systems.fusion.methods import are_texts, files_of, rounded_to_bits
from harness.systems.fusion.system import FusedRuns, Training

EXTRA = "ranx"
MISSING = f"ranx is not installed: pip install 'mathir-harness[{EXTRA}]'"
NORMS = ("borda", "max", "min-max", "min-max-inverted", "rank", "sum", "zmuv")


@dataclass(frozen=True)
class RanxMethod:
    """A method of ranx.

    Attributes
    ----------
    parameters : its parameters that a configuration gives.
    trained : whether it always learns from training judgments.
    default : whether ranx has a default of its parameter.
    """

    parameters: tuple[str, ...] = ()
    trained: bool = False
    default: bool = False


METHODS: Mapping[str, RanxMethod] = {
    **dict.fromkeys(
        ("anz", "bordafuse", "condorcet", "isr", "log_isr", "max", "med", "min", "mnz", "sum"), RanxMethod()
    ),
    **dict.fromkeys(("bayesfuse", "mapfuse", "posfuse", "probfuse", "segfuse", "slidefuse"), RanxMethod(trained=True)),
    **dict.fromkeys(("mixed", "w_bordafuse", "w_condorcet", "wmnz", "wsum"), RanxMethod(("weights",))),
    "gmnz": RanxMethod(("gamma",)),
    "logn_isr": RanxMethod(("sigma",), default=True),
    "rbc": RanxMethod(("phi",)),
    "rrf": RanxMethod(("k",), default=True),
}


class FusionRanx(FusedRuns):
    """Fusion of runs of other systems by ranx.

    A topic that a run does not answer counts as one for which it retrieved nothing.

    Parameters
    ----------
    runs, depth : as in `harness.systems.fusion.system.Fusion`.
    method : `anz`, `bayesfuse`, `bordafuse`, `condorcet`, `gmnz`, `isr`, `log_isr`, `logn_isr`, `mapfuse`, `max`,
        `med`, `min`, `mixed`, `mnz`, `posfuse`, `probfuse`, `rbc`, `rrf`, `segfuse`, `slidefuse`, `sum`, `w_bordafuse`,
        `w_condorcet`, `wmnz` or `wsum`.
    norm : normalization of scores, one of `NORMS`; None for the scores as they are.
    params : parameters of the method: `k`, `phi`, `gamma`, `sigma` or `weights`. Without them, ranx tunes them if there
        are `training_runs`, and else has defaults for `k` (60) and `sigma` (0.01).
    training_runs : for each of `runs`, a run file of the same system on the topics of the training judgments, or a list
        of run files.
    metric : measure of ranx that is tuned for. Unjudged documents count as not relevant in it.
    compile : whether ranx compiles its code with numba. That takes minutes at first; it makes tuning faster.

    Raises
    ------
    HarnessError
        A parameter is unknown or not used by the method, or has an invalid value.

    Examples
    --------
    >>> FusionRanx(["bm25", "tree"], "wsum", params={"k": 60})
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'params': 'k' is not used by wsum; known: weights
    """

    def __init__(
        self,
        runs: Sequence[str] | None = None,
        method: str = "rrf",
        norm: str | None = None,
        params: Mapping[str, Any] | None = None,
        training_runs: Sequence[str | Sequence[str]] | None = None,
        metric: str = "ndcg",
        compile: bool = False,
        depth: int = DEPTH,
        name: str = "fusion-ranx",
    ) -> None:
        checks.choice("method", method, METHODS)
        if norm is not None:
            checks.choice("norm", norm, NORMS)
        super().__init__(runs, depth, name)
        self.method, self.norm, self.metric, self.compile = method, norm, checks.text("metric", metric), compile
        self.params = _checked_parameters(method, params or {}, len(self.runs))
        if training_runs is not None:
            entries = training_runs if isinstance(training_runs, list | tuple) else []
            if len(entries) != len(self.runs) or not all(are_texts(files_of(entry)) for entry in entries):
                expected = f"{len(self.runs)} run files, or lists of run files"
                raise HarnessError(f"key 'training_runs' is {training_runs!r}, expected {expected}")
            self.training_files = [files_of(entry) for entry in entries]
            if not self.needs_training():
                why = "with 'params'" if self.params else "which learns nothing"
                raise HarnessError(f"key 'training_runs' is not used by {method}, {why}; leave it out")

    def libraries(self) -> tuple[str, ...]:
        """Returns ranx, numba, and the libraries of the systems to run."""
        return ("ranx", "numba", *super().libraries())

    def needs_training(self) -> str:
        """Returns why judged runs are required, with `{}` for what is lacking; empty if they are not."""
        method = METHODS[self.method]
        if method.trained:
            return f"ranx's {self.method} needs {{}}"
        lacking = [name for name in method.parameters if name not in self.params]
        if not lacking or (method.default and not self.training_files):
            return ""
        return f"ranx's {self.method} needs {{}} (or the key 'params.{lacking[0]}')"

    def fused(self, runs: Sequence[Run], training: Training | None = None, name: str = "") -> Run:
        """Fuses given runs, one for each entry of the key `runs`, in that order; see `Fusion.fused`.

        Raises
        ------
        HarnessError
            ranx is missing or fails; the runs are empty, or the training runs answer no judged topic; or a fused score
            is not a finite number.
        """
        if missing():
            raise HarnessError(MISSING)
        candidates = align_results(runs, self.depth)
        job = {
            "runs": _rankings(candidates, candidates.topics),
            "method": self.method,
            "norm": self.norm,
            "params": self.params,
            "training": None if training is None else self._training_data(*training),
        }
        environment = {"PYTHONHASHSEED": "0"} | ({} if self.compile else {ranx_process.INTERPRETED: "1"})
        with phase("search"):
            made = process_answer(f"system {self.name}: ranx", ranx_process.__name__, job, environment)
        if training is not None:
            note(f"{self.name}: parameters that ranx learned", made["params"])
        score = np.empty(candidates.topic.size)
        docs = [doc.decode() for doc in candidates.docs.tolist()]
        for row, (topic, doc) in enumerate(zip(candidates.topic.tolist(), candidates.doc.tolist(), strict=True)):
            # A method may leave out documents, or give them no number.
            score[row] = made["scores"].get(candidates.topics[topic], {}).get(docs[doc], np.nan)
        if (wrong := np.flatnonzero(~np.isfinite(score))).size:
            at = f"topic {candidates.topics[candidates.topic[wrong[0]]]!r}, document {docs[candidates.doc[wrong[0]]]!r}"
            norm = f" and norm={self.norm}" if self.norm else ""
            raise HarnessError(f"system {self.name}: ranx's {self.method}{norm} gives no finite score: {at}")
        run = to_run(candidates, rounded_to_bits(score), name or self.name)
        return Run.from_dict(run.name, run.to_dict())  # applies the checks of a run file

    def _training_data(self, runs: Sequence[Run], qrels: Qrels) -> dict[str, Any]:
        candidates = align_results(runs, self.depth)
        grades = qrels.to_dict()
        topics = [topic for topic in candidates.topics if grades.get(topic)]
        if not topics:
            raise HarnessError("fusion: none of the training judgments' topics is answered by the training runs")
        judged = {topic: {doc: int(grade) for doc, grade in grades[topic].items()} for topic in topics}
        return {"runs": _rankings(candidates, topics), "qrels": judged, "metric": self.metric}


def _checked_parameters(method: str, params: object, runs: int) -> dict[str, Any]:
    """Returns a method's parameters after checking their names and values."""
    known = METHODS[method].parameters
    if not isinstance(params, Mapping):
        raise HarnessError(f"key 'params' is {params!r}, expected names and values")
    for key, value in params.items():
        if key not in known:
            raise HarnessError(f"key 'params': {key!r} is not used by {method}; {suggestion(str(key), known)}")
        if key == "weights":
            if not isinstance(value, list | tuple) or len(value) != runs:
                raise HarnessError(f"key 'params.weights' is {value!r}, expected {runs} numbers from 0")
            for each in value:
                checks.check_number("params.weights", each)
        elif key == "k":
            checks.check_whole_number("params.k", value)
        else:
            checks.check_number(f"params.{key}", value, high=np.inf if key == "gamma" else 1)
    if "weights" in params:
        return {**params, "weights": [float(each) for each in params["weights"]]}
    return {key: value if key == "k" else float(value) for key, value in params.items()}


def _rankings(candidates: FusionCandidates, topics: Sequence[str]) -> list[dict[str, list[tuple[str, float]]]]:
    """Returns topic -> pairs of document and score for each run, in the order of its ranks."""
    docs = [doc.decode() for doc in candidates.docs.tolist()]
    wanted = set(topics)
    out = []
    for column in range(candidates.rank.shape[1]):
        rankings: dict[str, list[tuple[str, float]]] = {topic: [] for topic in topics}
        rank, score = candidates.rank[:, column], candidates.score[:, column]
        order = np.lexsort((rank, candidates.topic))
        for row in order[np.isfinite(rank[order])].tolist():
            if (topic := candidates.topics[candidates.topic[row]]) in wanted:
                rankings[topic].append((docs[candidates.doc[row]], float(score[row])))
        out.append(rankings)
    return out


def missing() -> tuple[str, ...]:
    """Returns what is missing to run ranx; empty if nothing is."""
    return () if importlib.util.find_spec("ranx") is not None else (MISSING,)
