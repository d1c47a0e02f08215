"""The tutorials of the documentation, followed from an empty folder: see `pages`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, follow, marked, needing
from tools import Place

TUTORIALS = ("tutorials",)
HEAVY = {"compare-systems", "lab", "own-collection-and-system", "reproduce"}


@pytest.mark.parametrize("path", [marked(path, heavy=HEAVY) for path in sorted((DOCS / "tutorials").glob("*.md"))])
def test_tutorials(tmp_path: Path, path: Path) -> None:
    """In the order of the page; blocks that need a network, a server or time are left out."""
    follow(Place(tmp_path), path.read_text(encoding="utf-8"))


@pytest.mark.heavy
@pytest.mark.parametrize("path", needing(TUTORIALS, "time"))
def test_tutorials_whole(tmp_path: Path, path: Path) -> None:
    follow(Place(tmp_path), path.read_text(encoding="utf-8"), {"time"})


@pytest.mark.heavy
@pytest.mark.real
@pytest.mark.parametrize("path", needing(TUTORIALS, "network"))
def test_tutorials_with_real_data(tmp_path: Path, mirror: Path, path: Path) -> None:
    place = Place(tmp_path)
    place.environment["HARNESS_MIRROR"] = str(mirror)
    follow(place, path.read_text(encoding="utf-8"), {"network"})


@pytest.mark.heavy
@pytest.mark.parametrize("path", needing(TUTORIALS, "server"))
def test_tutorials_with_a_server(tmp_path: Path, path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra server)")
    follow(Place(tmp_path), path.read_text(encoding="utf-8"), {"server"})
