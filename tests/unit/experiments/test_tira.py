"""Runs exported for TIRA: read back equal, with metadata that holds nothing private; TIRA's own check accepts them."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import refuses

from harness.data.run_writers import write_run
from harness.data.trec import Run, read_run
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.experiments.tira import export_run, metadata_of
from harness.store import cost, sidecar
from harness.store.cost import measuring
from harness.systems.build import load_system


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run of the harness with its metadata file."""
    return make(load_system("overlap"), task("mini-task1", "mini-answers"), runs=tmp_path / "runs").path


def same(a: Run, b: Run) -> bool:
    return (a.name, a.to_dict()) == (b.name, b.to_dict())


@pytest.mark.parametrize("target", ["out", "out.zip"])
def test_what_is_written_is_read_back(tmp_path: Path, made: Path, target: str) -> None:
    run = export_run(made, tmp_path / target, team="Ours", description="Words in common.", collection="task-1")
    assert same(read_run(tmp_path / target), read_run(made))
    assert same(run, read_run(made))
    said = metadata_of(tmp_path / target)[0]
    before = sidecar.read(sidecar.sidecar_path(made))
    assert said["tag"] == "overlap"
    assert (said["platform"], said["implementation"]) == (before["platform"], before["implementation"])
    assert (said["actor"], said["research goal"]) == ({"team": "Ours"}, {"description": "Words in common."})
    assert said["data"]["test collection"] == {"name": "task-1"}
    assert said["resources"]["runtime"]["wallclock"] == f"{1000 * before['harness']['seconds']['in all']:.0f} ms"
    assert "harness" not in said
    again = export_run(tmp_path / target, tmp_path / "again")  # an archive is a run like any other
    assert same(again, run)
    assert metadata_of(tmp_path / "again")[0] == said


@pytest.mark.parametrize(("name", "tag"), [("intfloat/e5-base", "intfloat/e5-base"), ("my run", "my_run")])
def test_a_run_is_exported_under_another_name(tmp_path: Path, made: Path, name: str, tag: str) -> None:
    assert export_run(made, tmp_path / "out.zip", name=name).name == tag
    read = read_run(tmp_path / "out.zip")
    assert (read.name, read.to_dict()) == (tag, read_run(made).to_dict())
    assert metadata_of(tmp_path / "out.zip")[0]["tag"] == tag


def test_the_folder_of_a_submission_is_written(tmp_path: Path, made: Path) -> None:
    """A lab keeps a run as `run.txt`, with its metadata under the name that any run's has."""
    folder = tmp_path / "lab" / "submissions" / "ours" / "overlap.v1"
    folder.mkdir(parents=True)
    (folder / "run.txt").write_bytes(made.read_bytes())
    sidecar.sidecar_path(folder / "run.txt").write_bytes(sidecar.sidecar_path(made).read_bytes())
    export_run(folder, tmp_path / "out")
    assert same(read_run(tmp_path / "out"), read_run(made))
    assert metadata_of(tmp_path / "out")[0]["tag"] == "overlap"


def test_archives_depend_on_their_content_alone(tmp_path: Path, made: Path) -> None:
    for name in ("a.zip", "b.zip"):
        export_run(made, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["run.txt", "ir-metadata.yml"]


def test_checksums_of_judgments_stay(tmp_path: Path) -> None:
    """Of training and pools, which are checksums of judgments, nothing is exported."""
    bench = task("mini-task1", "mini-answers")
    path = make(load_system("overlap"), bench, runs=tmp_path / "runs", rerank=True).path
    before = sidecar.read(sidecar.sidecar_path(path))
    before["data"]["training data"] = "0123" * 16
    said = tmp_path / "said.yml"
    said.write_text(yaml.safe_dump(before), encoding="utf-8")
    export_run(path, tmp_path / "out", metadata=said)
    text = (tmp_path / "out" / "ir-metadata.yml").read_text("utf-8")
    assert before["harness"]["pool"] is not None
    assert str(before["harness"]["pool"]) not in text
    assert "0123" not in text


def test_task_2_is_written_without_its_context(tmp_path: Path) -> None:
    path = make(load_system("overlap"), task("mini-task2", "mini-formulas"), runs=tmp_path / "runs").path
    export_run(path, tmp_path / "out")
    assert read_run(tmp_path / "out").to_dict() == read_run(path).to_dict()


def test_what_is_refused(tmp_path: Path, made: Path) -> None:
    lonely = tmp_path / "lonely.run"
    write_run(Run.from_dict("lonely", {"q1": {"d1": 1.0}}), lonely)
    refuses(r"lonely\.ir-metadata\.yml: no such file.*--metadata", lambda: export_run(lonely, tmp_path / "out"))
    empty = tmp_path / "empty.yml"
    empty.write_text("tag: x\n", encoding="utf-8")
    with pytest.raises(HarnessError, match=r"empty\.yml: its metadata has none of platform, implementation, resources"):
        export_run(lonely, tmp_path / "out", metadata=empty)
    empty.write_text("implementation: x\nresearch goal: find\n", encoding="utf-8")
    with pytest.raises(HarnessError, match=r"empty\.yml: key 'research goal' of its metadata is 'find', expected keys"):
        export_run(lonely, tmp_path / "out", metadata=empty, description="Words.")
    empty.write_text("implementation: x\ndata: [d]\n", encoding="utf-8")
    with pytest.raises(HarnessError, match=r"key 'data' of its metadata is \['d'\], expected keys and values"):
        export_run(lonely, tmp_path / "out", metadata=empty, collection="c")
    (tmp_path / "there").mkdir()
    refuses("there: exists already", lambda: export_run(made, tmp_path / "there"))
    made.write_text(made.read_text("utf-8").replace("\t1\t", "\t2\t", 1), encoding="utf-8")
    refuses("belongs to another run, or the run was changed", lambda: export_run(made, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_tira_accepts_it(tmp_path: Path, made: Path) -> None:
    check = pytest.importorskip("tira.check_format", reason="tira is not installed: pip install 'mathir-harness[tira]'")
    from tira.tira_run import guess_dataset, guess_system_details

    export_run(made, tmp_path / "out", team="Ours", description="Words.", collection="some-dataset")
    for form in ("run.txt", "ir_metadata"):
        status, message = check.check_format(tmp_path / "out", form)
        assert status.name == "OK", message
    lines = list(check.lines_if_valid(tmp_path / "out", "run.txt"))
    run = read_run(made)
    assert {(each["qid"], each["docno"], each["score"]) for each in lines} == {
        (topic, doc, score) for topic, docs in run.to_dict().items() for doc, score in docs.items()
    }
    assert guess_dataset(tmp_path / "out") == "some-dataset"
    assert guess_system_details(tmp_path / "out", None) == {"tag": "overlap", "description": "Words.", "team": "Ours"}


# ---- tirex-tracker ----------------------------------------------------------------------------------------------


def test_readings_as_ir_metadata() -> None:
    """As tirex-tracker gives them: JSON, a series as its maximum, and null for a counter that cannot be read."""
    readings: dict[str, Any] = {
        "TIME_ELAPSED_WALL_CLOCK_MS": b"754",
        "CPU_ENERGY_SYSTEM_JOULES": b"12.5",
        "RAM_ENERGY_SYSTEM_JOULES": b"null",
        "GPU_ENERGY_SYSTEM_JOULES": b"",
        "RAM_USED_PROCESS_KB": b'{"max": 217522, "min": 2, "avg": 16, "timeseries": {}}',
        "GPU_VRAM_USED_PROCESS_MB": b"null",
        "OTHER": b"1",
    }
    assert cost.resources(readings) == {
        "runtime": {"wallclock": "754 ms"},
        "cpu": {"energy used system": "12.5 J"},
        "ram": {"used process": {"max": "217522 kB"}},
    }
    assert cost.resources({"TIME_ELAPSED_USER_MS": b"{", "RAM_USED_PROCESS_KB": b"3"}) == {}
    assert cost.resources({"CPU_ENERGY_SYSTEM_JOULES": b"NaN"}) == {}


def test_nothing_is_tracked_where_it_is_off() -> None:
    with measuring() as meter:
        pass
    assert meter.resources == {}


def test_a_tracker_that_does_not_load_stops_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its native code may be of another system."""
    (tmp_path / "tirex_tracker.py").write_text("raise OSError('libtirex_tracker.so: wrong ELF class')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tirex_tracker", raising=False)
    monkeypatch.setenv(cost.VARIABLE, "on")
    with measuring() as meter:
        pass
    assert meter.resources == {}


@pytest.mark.slow
def test_tirex_tracker_in_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tirex_tracker", reason="tirex-tracker is not installed: pip install 'mathir-harness[tira]'")
    monkeypatch.setenv(cost.VARIABLE, "on")
    path = make(load_system("overlap"), task("mini-task1", "mini-answers"), runs=tmp_path / "runs").path
    found = sidecar.read(sidecar.sidecar_path(path))["resources"]
    assert found["runtime"].keys() >= {"wallclock", "user", "system"}
    assert int(found["ram"]["used process"]["max"].removesuffix(" kB")) > 1000
    assert sidecar.claimed(sidecar.sidecar_path(path))[1] == read_run(path).sha256
    export_run(path, tmp_path / "out")
    assert metadata_of(tmp_path / "out")[0]["resources"] == found
