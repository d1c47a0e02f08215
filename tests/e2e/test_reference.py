"""The reports that the repository keeps are those that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import Place

REFERENCE = Path(__file__).parents[2] / "reports" / "reference"
OPTIONS = ("reference=true", "formats=[md]", "output=made", "runs=runs")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def compare(made: Path) -> None:
    wanted, found = files(REFERENCE / made.name), files(made)
    assert found.keys() == wanted.keys()
    for name, content in found.items():
        assert content == wanted[name], f"{made.name}/{name} differs; run make reports, look at the diff"


@pytest.mark.slow
def test_the_demonstration(place: Place) -> None:
    place.good("reproduce", *OPTIONS)
    made = sorted((place.here / "made").iterdir())
    assert [path.name for path in made] == ["mini-task1", "mini-task2", "mini-theorems"]
    for path in made:
        compare(path)


@pytest.mark.heavy
@pytest.mark.real
def test_crossmath(place: Place, mirror: Path) -> None:
    place.good("reproduce", "paper=crossmath", *OPTIONS, environment={"HARNESS_MIRROR": str(mirror)})
    compare(place.here / "made" / "crossmath")
