"""Rank fusion as a system."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.trec import Qrels, Run, read_run, run_bytes
from harness.errors import HarnessError, refuse, suggestion
from harness.io import checks, config
from harness.io.files import sha256
from harness.store import cost
from harness.systems.base import MARK, Request
from harness.systems.build import BuiltSystem, check_cycle, load_system
from harness.systems.fusion.candidates import DEPTH, fuse
from harness.systems.fusion.methods import METHODS, Learn, are_texts, check_known, files_of, given
from harness.systems.ranking import permitted
from harness.systems.rerank import MadeOfSystems

Training = tuple[Sequence[Run], Qrels]  # runs of the same systems on other topics, and the judgments of these


class FusedRuns(MadeOfSystems):
    """Base of systems that fuse runs: run files, and systems that are run first.

    Parameters
    ----------
    runs, depth, name : as in `Fusion`.

    Attributes
    ----------
    training_files : for each of `runs`, the run files of the same system on the topics of the training judgments.

    Raises
    ------
    HarnessError
        The runs are not two or more distinct names, or the depth is not a whole number from 1.
    """

    training_files: Sequence[Sequence[str]] = ()

    def __init__(self, runs: Sequence[str] | None, depth: int, name: str) -> None:
        if runs is None:
            raise HarnessError("key 'runs' is missing")
        self.runs, self.depth, self.name = runs, depth, name
        n = len(runs) if are_texts(runs) else 0
        if n < 2 or len(set(runs)) < n:
            raise HarnessError(f"key 'runs' is {runs!r}, expected a list of two runs or more, each once")
        if depth < 1:
            raise HarnessError(f"key 'depth' is {depth!r}, expected a whole number from 1")

    @abstractmethod
    def fused(self, runs: Sequence[Run], training: Training | None = None, name: str = "") -> Run:
        """Fuses given runs, one for each entry of the key `runs`, in that order."""

    @abstractmethod
    def needs_training(self) -> str:
        """Returns why judged runs are required, with `{}` for what is lacking; empty if they are not."""

    def _systems(self) -> list[BuiltSystem]:
        """Returns the systems among `runs`; the other runs are files."""
        for run in self.runs:
            check_cycle(run)
        return [load_system(run) for run in self.runs if run in config.names("system")]

    def reads(self) -> dict[str, Any]:
        """Returns the checksums of the run files, and the configurations and inputs of the systems."""
        for run in self.runs:
            check_cycle(run)
        files = [*self.runs, *(file for entry in self.training_files for file in entry)]
        systems = config.names("system")
        absent = [run for run in self.runs if run not in systems and not Path(run).expanduser().exists()]
        refuse([f"system {self.name}: {_absent(run, systems)}" for run in absent])
        return {
            file: [config.load("system", file)[0], load_system(file).reads()]
            if file in systems
            else sha256(run_bytes(Path(file).expanduser()))
            for file in files
        }

    def __call__(self, request: Request) -> Run:
        """Reads or makes the runs and fuses them; with a pool, only its documents are ranked and fused.

        The name of the run ends with `MARK` if the training judgments hold a topic that is ranked. Raises HarnessError
        if a run is neither a file nor a system, or is fused from itself; or if a method that learns lacks training
        judgments or training runs.
        """
        training: Training | None = None
        leaked: frozenset[str] = frozenset()
        if learner := self.needs_training():
            if request.training is None or not self.training_files:
                lacking = "training judgments" if request.training is None else "the key 'training_runs'"
                raise HarnessError(f"system {self.name}: {learner.format(lacking)}")
            files = [[Path(file).expanduser() for file in entry] for entry in self.training_files]
            joined = [_joined([read_run(file, name="training") for file in entry]) for entry in files]
            training = (joined, request.training)
            leaked = request.topics.ids() & set(request.training.topics)
        for run in self.runs:
            check_cycle(run)
        systems = config.names("system")
        runs = []
        for run in self.runs:
            with cost.part(run):
                if run in systems:
                    runs.append(load_system(run)(replace(request, workspace=request.workspace / run)))
                elif (path := Path(run).expanduser()).exists():
                    runs.append(permitted(read_run(path, known_topics=request.topics.ids()), request))
                else:
                    raise HarnessError(f"system {self.name}: {_absent(run, systems)}")
        marked = leaked or any(run.name.endswith(MARK) for run in runs)
        return self.fused(runs, training, self.name + (MARK if marked else ""))


class Fusion(FusedRuns):
    """Fusion of runs of other systems.

    Parameters
    ----------
    runs : two or more run files, or names of systems in `conf/system/`, which are run first. A file with the name of a
        system must be written with its folder (`./overlap`).
    method : `rrf` (reciprocal rank fusion), `ibc` and `wibc` (median rank, weighted), `rbc` (regression from ranks to
        gains), `rank-biased-centroids`, `combsum`, `combmnz`, or `interpolation` (weighted sum of normalised scores).
    depth : results of each topic that are taken from the runs, and returned.
    parameters : parameters of the method, as listed in `METHODS`; None means not given. Methods that learn take
        `training_runs`: for each of `runs`, a run file of the same system on the topics of the training judgments, or a
        list of run files (such as one for each year).

    Raises
    ------
    HarnessError
        A parameter is unknown, is not used by the method, or has an invalid value.

    Examples
    --------
    >>> Fusion(["bm25", "tree"], "rrf", k=10).parameters
    {'k': 10}
    >>> Fusion(["bm25", "tree"], "combsum", k=10)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'k' is not used by combsum; rrf takes k
    """

    def __init__(
        self,
        runs: Sequence[str] | None = None,  # required, but unknown keys are reported first
        method: str = "rrf",
        depth: int = DEPTH,
        name: str = "fusion",
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        checks.choice("method", method, METHODS)
        check_known(method, parameters)
        super().__init__(runs, depth, name)
        self.method, self.parameters = method, given(method, parameters, len(self.runs))
        self.training_files = [files_of(entry) for entry in self.parameters.pop("training_runs", ())]

    @property
    def learns(self) -> bool:
        """Whether the method must learn parameters from training judgments."""
        return METHODS[self.method].learn is not None and "weights" not in self.parameters

    def needs_training(self) -> str:
        """Returns why judged runs are required, with `{}` for what is lacking; empty if they are not."""
        instead = " (or the key 'weights')" if "weights" in METHODS[self.method].parameters else ""
        return f"{self.method} needs {{}}{instead}" if self.learns else ""

    def fused(self, runs: Sequence[Run], training: Training | None = None, name: str = "") -> Run:
        """Fuses given runs.

        Parameters
        ----------
        runs : one run for each entry of the key `runs`, in that order.
        training : if the method learns, runs of the same systems on other topics, in the same order, and the judgments
            of these topics.

        Raises
        ------
        HarnessError
            The runs are empty; or the method learns, and training data is missing or insufficient.

        Examples
        --------
        >>> a, b = (Run.from_dict(name, {"T1": {name: 1.0, "both": 0.5}}) for name in ("a", "b"))
        >>> list(Fusion(["a", "b"]).fused([a, b]).to_dict()["T1"])
        ['both', 'b', 'a']
        """
        method = METHODS[self.method]
        values = {key: value for key, value in self.parameters.items() if key in method.parameters}
        if method.learn is not None and self.learns:
            if training is None:
                raise HarnessError(f"system {self.name}: {self.method} needs training runs and their judgments")
            values |= self._learned(method.learn, *training)
        fused = fuse(runs, partial(method.score, **values), name or self.name, self.depth)
        return Run.from_dict(fused.name, fused.to_dict())  # applies the checks of a run file

    def _learned(self, learn: Learn, runs: Sequence[Run], training: Qrels) -> dict[str, Any]:
        """Returns the parameters that the method learns from training judgments."""
        how = {key: value for key, value in self.parameters.items() if key in METHODS[self.method].learning}
        learned = learn(runs, training, self.depth, **how)
        if not any(learned.get("weights", [1])):
            raise HarnessError(f"system {self.name}: all training runs have an nDCG' of 0; give the key 'weights'")
        return learned


def _absent(run: str, systems: Collection[str]) -> str:
    """Returns what is wrong with an entry of `runs` that is neither a file nor a system."""
    file = "" if run.endswith(".run") else f"; the file of a run is runs/COLLECTION/{run}.run"
    return f"{run}: no such file, and no system of that name ({suggestion(run, systems)}){file}"


def _joined(runs: Sequence[Run]) -> Run:
    """Joins runs of one system on different topics to one run."""
    names = tuple(topic for run in runs for topic in run.topics)
    if len(set(names)) < len(names):
        raise HarnessError(
            f"key 'training_runs': two files of one run hold topic {Counter(names).most_common(1)[0][0]!r}"
        )
    before = np.cumsum([0, *(len(run.topics) for run in runs)])
    topic = np.concatenate([run.topic + start for run, start in zip(runs, before, strict=False)])
    doc, score = np.concatenate([run.doc for run in runs]), np.concatenate([run.score for run in runs])
    return Run(runs[0].name, names, topic.astype(np.int32), doc, score)
