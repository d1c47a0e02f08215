"""Rehearsals as a command: recipes of each kind pass on stand-ins, and a rehearsal that was stopped resumes."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
from tools import Place

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, mirror: Path) -> Place:
    made = Place(tmp_path_factory.mktemp("rehearse"))
    made.environment["HARNESS_MIRROR"] = str(mirror)
    return made


def _steps(place: Place, folder: str, paper: str, kind: str) -> list[Path]:
    """The records or logs of the steps of a rehearsal."""
    return sorted((place.here / folder / paper / "work" / "runs" / "making" / paper / kind).glob("*.*"))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("paper", "row"),
    [
        ("mirmu-msm", "ens 14:*"),  # words and formulas of posts, and a bi-encoder in a folder, fused
        ("mathlib4", "with query*OpenAI v3*/ formal corpus"),  # a service's vectors, queries augmented by a model
        ("saber-math", "*BGE-M3*"),  # an encoder of the hub
        ("mathamr-plus", "Sequential"),  # AMR graphs, a training, an experiment's part
    ],
)
def test_a_recipe_of_each_kind(place: Place, paper: str, row: str) -> None:
    started = place.start("rehearse", paper, "--rows", row)
    out, err = started.communicate(timeout=900)
    assert started.returncode == 0, err
    said, report = out.splitlines()[-2:]
    passed = said.split()
    assert passed[0] == f"{paper}:"
    assert passed[1] == passed[3] != "0"
    page = (place.here / report.removeprefix("report: ")).parent / "report.md"
    assert "passes" in page.read_text(encoding="utf-8")
    logs = "".join(path.read_text(encoding="utf-8") for path in _steps(place, "rehearsal", paper, "logs"))
    assert not re.search(r"nDCG′ 0\.0+\b", logs)


@pytest.mark.heavy
def test_one_that_was_stopped_resumes_to_the_same_bytes(place: Place) -> None:
    words = ("rehearse", "mirmu-msm", "--rows", "msm 3*", "--folder", "stopped")
    started = place.start(*words)
    while started.poll() is None and len(_steps(place, "stopped", "mirmu-msm", "steps")) < 2:
        time.sleep(0.05)
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode != 0
    place.good(*words)
    place.good(*words[:-1], "whole")
    steps = [json.loads(path.read_text()) for path in _steps(place, "stopped", "mirmu-msm", "steps")]
    assert [step["fault"] for step in steps] == [""] * 3
    runs = [place.files(f"{name}/mirmu-msm/work/runs") for name in ("stopped", "whole")]
    first, second = (
        {path.partition("/work/")[2]: data for path, data in found.items() if path.endswith(".run")} for found in runs
    )
    assert first == second != {}
