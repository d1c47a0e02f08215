from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiments.sweep import FILE, SweepPoint, note_point, planned_points, show_points

OPTUNA = {"defaults": [{"override /hydra/sweeper": "optuna"}], "hydra": {"sweeper": {"n_trials": 7}}}
GRID = {"hydra": {"sweeper": {"params": {"system.k1": "0.3,0.6", "system.b": "0,1,2"}}}}


def point(k1: str, value: float | None, scored_on: str = "t") -> SweepPoint:
    return SweepPoint({"system": "bm25", "system.k1": k1}, means={"nDCG′": value, "MAP′": 0.1}, scored_on=scored_on)


@pytest.mark.parametrize(
    ("lowest", "bests"), [(False, ("0.500", "0.500", "0.700")), (True, ("0.500", "0.400", "0.400"))]
)
def test_a_line_for_each_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lowest: bool, bests: tuple[str, ...]
) -> None:
    failed, word = SweepPoint({"system": "bm25", "system.k1": "x"}, error="no number"), "lowest" if lowest else "best"
    with show_points(tmp_path, 5, lowest=lowest):
        for each in (point("0.5", 0.5), failed, point("1.0488135", 0.4), point("2", None), point("3", 0.7)):
            note_point(tmp_path, each, {"system.k1"})
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", ")[0] for line in lines] == [f"point {number} of 5" for number in range(1, 6)]
    assert [line.split(", ")[1] for line in lines] == [
        f"k1=0.5: nDCG′ 0.500 ({word} {bests[0]})",
        "k1=x: failed",
        f"k1=1.049: nDCG′ 0.400 ({word} {bests[1]})",
        "k1=2: nDCG′ undefined",
        f"k1=3: nDCG′ 0.700 ({word} {bests[2]})",
    ]
    assert all(line.endswith(" left") for line in lines[:-1])
    assert not lines[-1].endswith(" left")
    assert not (tmp_path / FILE).exists()
    note_point(tmp_path, failed, {"system.k1"})  # of a sweep that nobody watches
    assert not list(tmp_path.iterdir())


def test_means_on_different_topics_have_no_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with show_points(tmp_path, None):
        note_point(tmp_path, point("1", 0.5), ())
        note_point(tmp_path, point("1", 0.6, "others"), ())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("point 1, system=bm25 k1=1: nDCG′ 0.500 (best 0.500)")
    assert second == "point 2, system=bm25 k1=1: nDCG′ 0.600"


@pytest.mark.parametrize(
    ("sweep", "words", "planned"),
    [
        (GRID, ["sweep=x", "-m"], (6, False)),
        (GRID, ["system.k1=1"], (3, False)),
        ({}, ["system=bm25,tree", "+system.b='a,b'", "system.k1=choice(1,2,3)"], (6, False)),
        ({}, ["system.k1=range(1,"], (None, False)),
        (OPTUNA, ["system.b=interval(0,1)", "hydra.sweeper.direction=minimize"], (7, True)),
        ({}, ["hydra/sweeper=optuna", "system.b=interval(0,1)"], (20, False)),
    ],
)
def test_the_number_of_points(sweep: dict[str, object], words: list[str], planned: tuple[int | None, bool]) -> None:
    assert planned_points(sweep, words) == planned
