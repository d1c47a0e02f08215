"""What is logged to MLflow and W&B, read back from their files; nothing leaves the machine unless configured."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus

import harness as h
from harness.errors import HarnessError
from harness.experiments import trackers
from harness.experiments.trackers import Finished, MLflow, Record, Wandb, _Tracker, check_tracker_choice, tracker_record

MLFLOW = pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed: mathir-harness[mlflow]")
WANDB = pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed (20 MB): mathir-harness[wandb]")


@pytest.fixture
def found(tmp_path: Path) -> Record:
    run = tmp_path / "mine.run"
    run.write_text("M.1 Q0 a1088 1 1.5 mine\n", encoding="utf-8")
    scores = h.evaluate(h.task("mini-task1", measures=["nDCG@10", "AP"]), run).scores[0]
    return tracker_record(scores, run, {"system": {"name": "mine", "k1": 1.2, "note": "x" * 600, "seed": None}})


def job(value: object, status: JobStatus = JobStatus.COMPLETED) -> JobReturn:
    return JobReturn(_return_value=value, status=status)


def test_records(found: Record) -> None:
    assert found.name == "mine"
    assert set(found.means) == {"nDCG@10", "AP"}
    assert {key: found.settings[key] for key in ("collection", "protocol", "system.name", "system.k1")} == {
        "collection": "mini-task1",
        "protocol": "arqmath-task1",
        "system.name": "mine",
        "system.k1": "1.2",
    }
    assert "system.seed" not in found.settings
    assert [path.name for path in found.files] == ["mine.run"]  # it has no metadata


def test_a_number_with_records_travels(found: Record) -> None:
    """Between processes of launchers, by pickle."""
    again = pickle.loads(pickle.dumps(Finished(0.5, [found])))  # noqa: S301
    assert (float(again), again.records) == (0.5, (found,))
    assert math.isnan(Finished(math.nan))


@dataclass
class Listed(_Tracker):
    """A tracker that keeps what it logs, or fails."""

    kept: list[str] = field(default_factory=list)
    fault: Exception | None = None
    title = "listed"

    def log(self, found: Record) -> None:
        if self.fault is not None:
            raise self.fault
        self.kept.append(found.name)


def test_what_is_logged(found: Record, capsys: pytest.CaptureFixture[str]) -> None:
    tracker = Listed()
    for made in (job(None), job(0.5), job(Finished(0.5, [found]), JobStatus.FAILED)):
        tracker.on_job_end(None, made)
    assert tracker.kept == []
    tracker.on_job_end(None, job(Finished(0.5, [found, replace(found, name="other")])))
    assert tracker.kept == ["mine", "other"]
    assert capsys.readouterr().err == ""
    tracker.on_job_end(None, job(Finished(0.5, [replace(found, private=True)])))
    assert len(tracker.kept) == 2
    assert capsys.readouterr().err == "listed: mine: not logged, because its judgments are private\n"


def test_a_fault_of_a_tracker_is_one_line(found: Record, capsys: pytest.CaptureFixture[str]) -> None:
    Listed(fault=ConnectionError("no\nserver")).on_job_end(None, job(Finished(0.5, [found])))
    assert capsys.readouterr().err == "listed: mine: not logged: ConnectionError: no server\n"


def test_packages_are_checked_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(
        HarnessError, match=r"hydra/callbacks=wandb: wandb is not installed: pip install 'mathir-harness\[wandb\]"
    ):
        check_tracker_choice(["run", "hydra/callbacks=[wandb]"])
    check_tracker_choice(["system=bm25", "hydra/callbacks=own"])
    check_tracker_choice(["system=bm25"])


def test_the_network_is_not_used(
    found: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With HARNESS_OFFLINE, addresses are refused before the libraries are imported."""
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imports {name}"))
    done = job(Finished(0.5, [found]))
    for uri in ("https://mlflow.example.org", "postgresql+psycopg2://db.example.org/mlflow", "databricks"):
        MLflow(tracking_uri=uri).on_job_end(None, done)
    Wandb(mode="online").on_job_end(None, done)
    Wandb(mode="onlin").on_job_end(None, done)
    lines = capsys.readouterr().err.splitlines()
    forbids = "HARNESS_OFFLINE forbids network access"
    assert lines == [
        f"MLflow: mine: not logged: HarnessError: https://mlflow.example.org: {forbids}",
        f"MLflow: mine: not logged: HarnessError: postgresql+psycopg2://db.example.org/mlflow: {forbids}",
        f"MLflow: mine: not logged: HarnessError: databricks: {forbids}",
        f"W&B: mine: not logged: HarnessError: mode=online: {forbids}",
        "W&B: mine: not logged: HarnessError: mode is 'onlin', expected 'offline' or 'online'",
    ]


@MLFLOW
@pytest.mark.slow
def test_mlflow(
    found: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tracker = MLflow()
    for name in ("mine", "other"):
        tracker.on_job_end(None, job(Finished(0.5, [replace(found, name=name)])))
    assert capsys.readouterr().err == ""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("mathir-harness")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"mine", "other"}
    run = runs["mine"]
    assert run.info.status == "FINISHED"
    assert run.data.metrics == {"nDCG_at_10": found.means["nDCG@10"], "AP": found.means["AP"], "topics": 42.0}
    assert run.data.params == {key: value[:500] for key, value in found.settings.items()}
    assert [each.path for each in client.list_artifacts(run.info.run_id)] == ["mine.run"]
    assert set(tmp_path.iterdir()) == {tmp_path / "mine.run", tmp_path / "mlruns"}


@pytest.mark.parametrize("artifacts", [True, False])
def test_a_run_that_wandb_could_not_log_whole_is_shown_as_failed(
    found: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], artifacts: bool
) -> None:
    ended: list[dict[str, int]] = []
    run = SimpleNamespace(summary={}, finish=lambda **how: ended.append(how))
    module = SimpleNamespace(Settings=dict, init=lambda **_: run)  # without Artifact: logging files fails
    monkeypatch.setattr("importlib.import_module", lambda _: module)
    Wandb(artifacts=artifacts).on_job_end(None, job(Finished(0.5, [found])))
    assert ended == ([{"exit_code": 1}] if artifacts else [{}])
    assert ("W&B: mine: not logged: " in capsys.readouterr().err) == artifacts


@WANDB
@pytest.mark.heavy
def test_wandb_offline(found: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Wandb(folder=str(tmp_path)).on_job_end(None, job(Finished(0.5, [found])))
    assert capsys.readouterr().err == ""
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    records = list(logged(file))
    config = {item.key: item.value_json for each in records for item in each.run.config.update}
    assert config["system.k1"] == '"1.2"'
    assert config["collection"] == '"mini-task1"'
    summary = {
        item.key or item.nested_key[0]: float(item.value_json) for each in records for item in each.summary.update
    }
    summary = {name: value for name, value in summary.items() if name[0] != "_"}  # its own
    assert summary == {"nDCG@10": found.means["nDCG@10"], "AP": found.means["AP"], "topics": 42}
    entries = [entry.path for each in records for entry in each.request.log_artifact.artifact.manifest.contents]
    entries += [entry.path for each in records for entry in each.artifact.manifest.contents]
    assert entries == ["mine.run"]


def logged(file: Path) -> Iterator[Any]:
    """The records in W&B's file of an offline run: a log like LevelDB's, in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = file.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # all of a record, or its last part
            found = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            found.ParseFromString(whole)
            yield found
            whole = b""


@MLFLOW
@pytest.mark.heavy
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: Callable[[str, str, str], Path]) -> None:
    """The points of a sweep are logged; a run on private judgments is not."""
    import os
    import subprocess
    import sys

    conf(
        "collection",
        "secret",
        "name: secret\ntitle: S\nlicence: CC0\nprotocol: arqmath-task1\ncorpus: mini-answers\neditions:\n"
        "  hidden: {title: hidden, qrels: {embedded: qrels/mini-task1.txt}, private: true}\n"
        "topics: {reader: jsonl, embedded: topics/mini-task1.eng.jsonl}\n",
    )
    folder = tmp_path / "here"
    folder.mkdir()
    code = str(Path(h.__file__).parents[1])

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-m", "harness", "run", *words, "hydra/callbacks=mlflow"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": code, "HARNESS_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "raised" not in run("-m", "collection=mini-task1", "system=overlap,shuffle", "corpus=mini-answers")
    assert "not logged, because its judgments are private" in run("collection=secret", "system=overlap")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(folder / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("mathir-harness")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(each.info.run_name.partition("-")[0] for each in runs) == ["overlap", "shuffle"]
    assert all(0 < each.data.metrics["nDCG"] <= 1 for each in runs)
    assert {each.data.params["corpus"] for each in runs} == {"mini-answers"}
