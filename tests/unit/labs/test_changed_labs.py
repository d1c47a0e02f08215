"""Labs whose settings or judgments change under their submissions: nothing private is told, nothing is mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_tools import Conf, Make, collection, enrol, files, judgments, run_file

from harness.cli.leaderboard import leaderboard
from harness.errors import HarnessError
from harness.labs.lab import Lab, read_lab
from harness.labs.submissions import scores_of, submissions
from harness.labs.submit import Offer, submit_run


def edited(lab: Lab, old: str, new: str) -> Lab:
    """The lab after a line of its settings was changed."""
    path = lab.folder / "lab.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return read_lab(lab.folder)


def test_a_lab_that_became_private(make_lab: Make, tmp_path: Path) -> None:
    """Its folder of scores is as private as that of a lab that was made so."""
    lab = enrol(edited(make_lab(cap=3), "# private:", "private: true #"), "A", "B")
    submit_run(lab, Offer(run_file(tmp_path / "1", 1), "A"))
    assert (lab.folder / "private").stat().st_mode & 0o777 == 0o700
    submit_run(lab, Offer(run_file(tmp_path / "2", 2), "B"))


def test_a_private_lab_does_not_become_public(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(private=True, cap=3)
    submit_run(lab, Offer(run_file(tmp_path / "1", 1), "A"))
    before = files(lab.folder)
    with pytest.raises(HarnessError, match=r"key 'private' is false, but the lab was created with private judgments"):
        edited(lab, "private: true", "private: false")
    (lab.folder / "lab.yaml").write_bytes(before["lab.yaml"])
    assert files(lab.folder) == before
    assert read_lab(lab.folder) == lab


def test_damaged_scores_are_not_replaced_by_other_ones(make_lab: Make, conf: Conf, tmp_path: Path) -> None:
    lab = make_lab()
    kept = submit_run(lab, Offer(run_file(tmp_path / "1", 1), "A")).submission
    (kept.run.parent / "scores.json").write_text("{}")
    before = files(lab.folder)
    collection(conf, tmp_path / "data", judgments(seed=2))
    with pytest.raises(HarnessError, match=r"scores.json: damaged, and the run now has other scores; restore the file"):
        scores_of(lab, kept)
    assert files(lab.folder) == before


@pytest.mark.parametrize("private", [False, True])
def test_a_lab_that_changed_has_no_leaderboard(
    make_lab: Make, conf: Conf, tmp_path: Path, private: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ties, floor and notes would be of what is said now, its means of what was said before."""
    lab = make_lab(**({"private": True, "cap": 3} if private else {}))
    for seed in (1, 2):
        submit_run(lab, Offer(run_file(tmp_path / f"{seed}", seed), f"T{seed}"))
    before = files(lab.folder)
    edited(lab, "# measures:", "measures: [AP] #")
    with pytest.raises(HarnessError, match="lab: measures changed since the first submission"):
        leaderboard(places=[str(lab.folder)])
    edited(lab, "measures: [AP] #", "# measures:")
    collection(conf, tmp_path / "data", judgments(seed=2))
    with pytest.raises(HarnessError, match="lab: judgments changed since the first submission"):
        leaderboard(places=[str(lab.folder)])
    assert files(lab.folder) == before
    collection(conf, tmp_path / "data", judgments())
    leaderboard(places=[str(lab.folder)], formats="json", resamples=10)
    assert len(submissions(lab)) == 2
    assert "T1 / mine" in capsys.readouterr().out
