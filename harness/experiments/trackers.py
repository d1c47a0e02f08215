"""Callbacks of Hydra that log runs to MLflow and Weights & Biases; chosen with `hydra/callbacks=NAME`.

By default everything stays on this machine: MLflow writes to a folder, and W&B works offline. Runs on private editions
are never logged.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, shortened
from harness.io.console import log_line
from harness.io.names import file_name
from harness.scoring.scores import Scores
from harness.sources import network
from harness.store import sidecar

MODULES = {"mlflow": "mlflow", "wandb": "wandb"}  # name of a configuration -> the module that it needs
_LONGEST = 500  # characters of a value, as MLflow allows
_BATCH = 100  # values that MLflow takes at a time


@dataclass(frozen=True)
class Record:
    """What a tracker logs of one run.

    Attributes
    ----------
    settings : names of collection, corpus, protocol and system, and the system's settings, flattened.
    means : measure -> mean; topics : their number.
    files : the run, its metadata and the page of its report, those that exist.
    private : whether it was scored by private judgments.
    """

    name: str
    settings: Mapping[str, str]
    means: Mapping[str, float]
    topics: int
    files: tuple[Path, ...] = ()
    private: bool = False


class Finished(float):
    """The mean of a job's first measure, which sweepers read, with records of its runs, which trackers log.

    Examples
    --------
    >>> found = Finished(0.5, [Record("bm25", {"system": "bm25"}, {"AP": 0.5}, 42)])
    >>> found + 0.25, found.records[0].name
    (0.75, 'bm25')
    """

    records: tuple[Record, ...]

    def __new__(cls, value: float, records: Iterable[Record] = ()) -> Finished:
        """Returns a number with records."""
        finished = super().__new__(cls, value)
        finished.records = tuple(records)
        return finished


def tracker_record(
    scores: Scores, run: Path, settings: Mapping[str, Any], *, private: bool = False, page: Path | None = None
) -> Record:
    """Returns the record of a scored run; measures without a mean are left out."""
    means = {name: mean for name in scores.measures if not math.isnan(mean := scores.aggregate(name))}
    given = {"collection": scores.collection, "edition": scores.edition, "protocol": scores.protocol.name}
    given |= {"judgments sha256": scores.qrels_sha256, "run sha256": scores.run_sha256}
    files = tuple(path for path in (run, sidecar.sidecar_path(run), page) if path is not None and path.is_file())
    return Record(scores.run, given | flat(settings), means, scores.n(scores.measures[0]), files, private)


def flat(settings: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Returns nested settings with dotted keys; a setting without a value is left out.

    Examples
    --------
    >>> flat({"system": {"name": "bm25", "k1": 1.2, "text": {"stem": True}, "seed": None}})
    {'system.name': 'bm25', 'system.k1': '1.2', 'system.text.stem': 'True'}
    """
    out: dict[str, str] = {}
    for name, value in settings.items():
        key = f"{before}{name}"
        if isinstance(value, Mapping):
            out |= flat(value, f"{key}.")
        elif value is not None:
            out[key] = str(value)
    return out


def check_tracker_choice(words: Sequence[str]) -> None:
    """Raises HarnessError if the arguments of a command choose a tracker whose package is not installed."""
    chosen = next((word.partition("=")[2] for word in reversed(words) if word.startswith("hydra/callbacks=")), "")
    for name in chosen.strip("[]").split(","):
        module = MODULES.get(name.strip())
        if module is not None and find_spec(module) is None:
            raise HarnessError(
                f"hydra/callbacks={name.strip()}: {module} is not installed: pip install 'mathir-harness[{module}]'"
            )


@dataclass
class _Tracker:
    """Callback that logs each record of a finished job; a fault of the tracker never loses the work."""

    artifacts: bool = True
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    title = ""

    def on_job_end(self, config: Any, job_return: Any, **_: Any) -> None:  # noqa: ANN401
        """Logs what a job has made."""
        from hydra.core.utils import JobStatus

        if job_return.status != JobStatus.COMPLETED:
            return
        value = job_return.return_value
        for each in value.records if isinstance(value, Finished) else ():
            if each.private:
                log_line(f"{self.title}: {each.name}: not logged, because its judgments are private")
                continue
            try:
                self.log(each)
            except Exception as error:
                said = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 200)
                log_line(f"{self.title}: {each.name}: not logged: {said}")

    def log(self, record: Record) -> None:
        """Logs one run."""
        raise NotImplementedError

    def on_run_start(self, config: Any, **_: Any) -> None:  # noqa: ANN401
        """Does nothing, like the other calls of Hydra below; its class would be imported with all of Hydra."""

    on_run_end = on_multirun_start = on_multirun_end = on_job_start = on_run_start


@dataclass
class MLflow(_Tracker):
    """Logs runs to MLflow: settings as parameters, means as metrics.

    Parameters
    ----------
    tracking_uri : folder, or address of a server.
    experiment : name of MLflow's experiment; made if there is none.
    artifacts : whether files are copied.
    """

    tracking_uri: str = "mlruns"
    experiment: str = "mathir-harness"

    title = "MLflow"

    def log(self, record: Record) -> None:
        """Logs one run. Raises what MLflow raises, and HarnessError for a server if the network is forbidden."""
        scheme = re.match(r"databricks$|[\w+.-]+(?=://)", self.tracking_uri)
        local = scheme is None or scheme[0] in ("file", "sqlite")
        if not local and network.offline():
            raise HarnessError(f"{self.tracking_uri}: HARNESS_OFFLINE forbids network access")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing is sent unasked
        if local and not (scheme and scheme[0] == "sqlite"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = self.tracking_uri if scheme else Path(self.tracking_uri).absolute().as_uri()
        tracking = importlib.import_module("mlflow.tracking")
        entities = importlib.import_module("mlflow.entities")
        client = tracking.MlflowClient(tracking_uri=uri)
        there = client.get_experiment_by_name(self.experiment)
        experiment = client.create_experiment(self.experiment) if there is None else there.experiment_id
        run = client.create_run(experiment, run_name=record.name).info.run_id
        try:
            now = 0
            metrics = {**record.means, "topics": float(record.topics)}
            values = [entities.Metric(metric_name(name), value, now, 0) for name, value in metrics.items()]
            client.log_batch(run, metrics=values)
            pairs = [
                entities.Param(metric_name(key), value[:_LONGEST]) for key, value in record.settings.items() if value
            ]
            for at in range(0, len(pairs), _BATCH):
                client.log_batch(run, params=pairs[at : at + _BATCH])
            for file in record.files if self.artifacts else ():
                client.log_artifact(run, str(file))
        except BaseException:
            client.set_terminated(run, status="FAILED")
            raise
        client.set_terminated(run)


def metric_name(name: str) -> str:
    """Returns a name that MLflow takes.

    Examples
    --------
    >>> metric_name("nDCG@10"), metric_name("RBP(p=0.9)")
    ('nDCG_at_10', 'RBP_p_0.9_')
    """
    return re.sub(r"[^A-Za-z0-9_\-. /:]", "_", name.replace("@", "_at_"))


@dataclass
class Wandb(_Tracker):
    """Logs runs to Weights & Biases: settings as configuration, means as summary.

    Parameters
    ----------
    mode : `offline`, which sends nothing, or `online`.
    project : name of the project.
    folder : folder that gets W&B's folder `wandb`.
    artifacts : whether files are copied.
    """

    mode: str = "offline"
    project: str = "mathir-harness"
    folder: str = "."

    title = "W&B"

    def log(self, record: Record) -> None:
        """Logs one run. Raises what W&B raises, and HarnessError for a wrong mode, or if the network is forbidden."""
        if self.mode not in ("offline", "online"):
            raise HarnessError(f"mode is {self.mode!r}, expected 'offline' or 'online'")
        if self.mode == "online" and network.offline():
            raise HarnessError("mode=online: HARNESS_OFFLINE forbids network access")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # nothing is sent unasked
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # else it advertises another package
        wandb = importlib.import_module("wandb")
        settings = wandb.Settings(
            silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True
        )
        run = wandb.init(
            project=self.project,
            name=record.name,
            config=dict(record.settings),
            mode=self.mode,
            dir=self.folder,
            settings=settings,
            reinit="create_new",
        )
        try:
            run.summary.update({**record.means, "topics": record.topics})
            if self.artifacts and record.files:
                artifact = wandb.Artifact(re.sub(r"[^\w.-]", "-", file_name(record.name)), type="run")
                for file in record.files:
                    artifact.add_file(str(file))
                run.log_artifact(artifact)
        except BaseException:
            run.finish(exit_code=1)  # W&B shows it as failed
            raise
        run.finish()
