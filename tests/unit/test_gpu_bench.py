"""The benchmark of a GPU, in small on the CPU: its table, where it is written, parts that fail or take too long."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tuning_tools import one_thread

from bench.gpu import __main__ as gpu
from bench.gpu import parts
from bench.gpu.parts import FULL, SMALL, Line, Sizes
from bench.table import RESULTS, load
from harness.systems import hardware

__all__ = ["one_thread"]  # fixture

pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

pytestmark = pytest.mark.usefixtures("one_thread")
TRIAL = ["--device", "cpu", "--small"]


def rows(page: Path) -> list[list[str]]:
    """Cells of the table's lines: part, work, measured, beside, goal, notes."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def number(cell: str) -> float:
    return float(cell.partition(" ")[0].replace(",", ""))


@pytest.mark.heavy
def test_small_trial_of_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed (extra sentences)")
    assert gpu.main([*TRIAL, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("# Work on a GPU\n")
    found = rows(tmp_path / "gpu.md")
    (epoch,) = (row for row in found if row[0] == "epoch")
    assert (epoch[1], epoch[5][:7]) == (f"training epoch of {SMALL.pairs} pairs", "2 steps")
    repeated, resumed = (row for row in found if row[0] == "resume")
    assert number(resumed[2]) == number(repeated[2]) == 0
    assert resumed[5] == "all weights equal, bit by bit; 4 steps; training resumes at epoch 2, step 2"
    assert list(dict.fromkeys(row[0] for row in found)) == list(parts.PARTS)
    assert all(number(row[2]) > 0 for row in found if row[0] != "resume" and row[2] != "-")
    works = {row[1] for row in found}
    for kind in ("bi", "cross"):
        for precision in ("float32", "bfloat16"):
            assert {f"{kind}-encoder, tiny, {precision}", f"fine-tuning of a {kind}-encoder, tiny, {precision}"} < works
    searched = [row for row in found if row[0] == "maxsim"]
    assert [row[1].split()[5] for row in searched] == ["float32,"]
    assert searched[0][5].endswith("first ten in common 1.000")
    step = [row for row in found if row[0] == "step"]
    if step[1][2] != "-":  # torch_geometric is installed: the same loss, and a ratio
        assert step[0][5].partition("loss")[2] == step[1][5].partition("loss")[2]
        (ratio,) = load(tmp_path / "gpu.json").values()
        assert ratio.peer == "FastRGCNConv"
        assert ratio.ratio == pytest.approx(number(step[1][2]) / number(step[0][2]), rel=0.01)


def test_without_a_gpu_one_line_and_no_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(hardware, "gpu", lambda: False)
    for device in ("auto", "cuda"):
        assert gpu.main(["--device", device, "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("bench.gpu: torch finds no GPU on this machine")
        assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_part_that_fails_is_a_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
        yield Line("broken", "before", 1.0, "s", f"{device} {sizes is SMALL} {folder.is_dir()}")
        raise RuntimeError("CUDA out of memory.\nmore lines")

    def other(_: str, __: Sizes, ___: Path) -> Iterator[Line]:
        yield Line("other", "after", 2.0, "s")

    for module in (gpu, parts):
        monkeypatch.setattr(module, "PARTS", {"broken": (broken, 1.0), "other": (other, 1.0)})
    before = {path: path.stat().st_mtime_ns for path in RESULTS.glob("gpu.*")}
    assert gpu.main(TRIAL) == 1
    out = capsys.readouterr().out
    assert "| broken | before | 1 s |  |  | cpu True True |" in out
    assert "| broken | the rest of this part | - |  |  | failed: RuntimeError: CUDA out of memory. |" in out
    assert "| other | after | 2 s |" in out
    assert {path: path.stat().st_mtime_ns for path in RESULTS.glob("gpu.*")} == before  # a trial is not a result


@pytest.mark.heavy
def test_a_part_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = gpu.isolated("epoch", "cpu", SMALL, 300.0)
    assert (line.part, line.unit) == ("epoch", "s")
    assert line.value
    (line,) = gpu.isolated("epoch", "cpu", SMALL, gpu.LEAST - 1)
    assert line.note.startswith("left out: the other parts took")
    monkeypatch.setattr(gpu, "LEAST", 0.0)
    (line,) = gpu.isolated("epoch", "cpu", SMALL, 0.2)
    assert line.note == "left out: the part has 0 s"
    monkeypatch.setattr(sys, "executable", "false")
    (line,) = gpu.isolated("epoch", "cpu", SMALL, 60.0)
    assert line.note == "failed: exit code 1: no message"


def test_ratios_are_above_one_where_ours_is_better() -> None:
    seconds = Line("epoch", "epoch", 13.0, "s", peer="thesis", theirs=455.0, goal=15.0)
    rate = Line("maxsim", "search", 532.0, "queries/s", peer="thesis", theirs=2.66, goal=300.0)
    found = [line.ratio("a GPU") for line in (seconds, rate)]
    assert [round(ratio.ratio, 6) for ratio in found if ratio] == [35.0, 200.0]
    assert [ratio.goal for ratio in found if ratio] == pytest.approx([455 / 15, 300 / 2.66])
    assert [ratio.work for ratio in found if ratio] == ["epoch, a GPU", "search, a GPU"]
    assert found[1] is not None
    assert found[1].unit == "s/queries"
    assert replace(rate, theirs=None).ratio("a GPU") is None
    assert replace(rate, value=None).ratio("a GPU") is None
    assert json.loads(json.dumps(rate.cells()))[2:5] == ["532 queries/s", "thesis: 2.66", "300"]


def test_the_time_of_all_parts_is_ten_minutes() -> None:
    assert sum(seconds for _, seconds in parts.PARTS.values()) == gpu.TOTAL == 600
    assert (FULL.pairs, FULL.vectors) == (45_000, 21_900_000)
