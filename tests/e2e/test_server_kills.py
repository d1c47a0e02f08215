"""A running server under load, with kills and faults of the machine: nothing is lost, nothing is there twice."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from machine_faults import unmountable
from postgres import postgres, programs

from bench.server import measured


def check(folder: Path, options: list[str], **settings: object) -> None:
    usual = {"teams": 3, "each": 2, "clients": 3, "kills": 2, "postgres": False, "workers": 1, "pause": (0.3, 1.0)}
    given = argparse.Namespace(**{"machine": False, **usual, **settings})
    found = measured(folder, ["--rate", "100000", "--workers", str(given.workers), *options], given)
    assert found["submissions"] == given.teams * given.each
    assert (found["lost"], found["twice"], found["wrong receipts"]) == ([], [], [])
    assert found["leaderboard equals a recomputation"]
    assert sum(found["killed"].values()) >= 1


@pytest.mark.heavy
def test_with_sqlite(tmp_path: Path) -> None:
    check(tmp_path, [])


@pytest.mark.heavy
def test_with_postgresql_and_two_workers(tmp_path: Path) -> None:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with postgres() as address:
        check(tmp_path, ["--database", address], workers=2)


@pytest.mark.heavy
def test_112_submissions_with_kills_a_full_disk_and_a_moving_clock(tmp_path: Path) -> None:
    if why := unmountable():
        pytest.skip(why)
    check(tmp_path, [], teams=14, each=8, clients=8, kills=24, machine=True, pause=(1.0, 4.0))
