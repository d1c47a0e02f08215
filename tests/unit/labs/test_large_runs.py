"""A run that a lab has accepted can be read again, however large; what is far larger unpacked cannot."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness.labs import submissions
from harness.labs.acts import lab_faults
from harness.labs.lab import new_lab
from harness.labs.submit import Offer, submit_run

RUN = Path(__file__).parents[3] / "runs" / "mini" / "mini-task1" / "overlap.run"


def test_an_accepted_run_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MOST_BYTES", 100)
    lab = new_lab(tmp_path / "lab", {"title": "Large", "collection": "mini-task1"})
    run = submit_run(lab, Offer(RUN, "team", "one")).submission.run
    assert run.stat().st_size > 100
    assert lab_faults(lab) == []
    run.write_bytes(gzip.compress(b"x" * 1_000_000))
    (fault,) = [line for line in lab_faults(lab) if "run.txt" in line]
    assert "unpacks to more than" in fault
