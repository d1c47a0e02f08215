"""Rehearsals as a command: recipes of each kind pass on stand-ins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import Place

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, mirror: Path) -> Place:
    made = Place(tmp_path_factory.mktemp("rehearse"))
    made.environment["HARNESS_MIRROR"] = str(mirror)
    return made


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
    logs = place.files(f"rehearsal/{paper}/work/runs/making/{paper}/logs").values()
    assert logs and not re.search(r"nDCG′ 0\.0+\b", b"".join(logs).decode())
