"""A running server under load, killed meanwhile: nothing is lost, nothing is there twice."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from postgres import postgres, programs

from bench.server import measured


def check(folder: Path, options: list[str], workers: int) -> None:
    given = argparse.Namespace(teams=3, each=2, clients=3, kills=2, postgres=False, workers=workers, pause=(0.3, 1.0))
    found = measured(folder, ["--rate", "100000", "--workers", str(workers), *options], given)
    assert found["submissions"] == 6
    assert (found["lost"], found["twice"], found["wrong receipts"]) == ([], [], [])
    assert found["leaderboard equals a recomputation"]
    assert sum(found["killed"].values()) >= 1


@pytest.mark.heavy
def test_with_sqlite(tmp_path: Path) -> None:
    check(tmp_path, [], 1)


@pytest.mark.heavy
def test_with_postgresql_and_two_workers(tmp_path: Path) -> None:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with postgres() as address:
        check(tmp_path, ["--database", address], 2)
