"""`lab.yaml`: what it says, what is wrong with it, and what `harness lab new` writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import literals
from lab_tools import Conf, collection, files, judgments, run_file, tiny_lab

from harness.errors import HarnessError
from harness.labs.lab import Lab, new_lab, read_lab
from harness.labs.submissions import submissions
from harness.labs.submit import open_lab


@pytest.fixture(autouse=True)
def _tiny(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    collection(conf, tmp_path / "secret", judgments(), name="secret", private=True)
    collection(conf, tmp_path / "answered", judgments(), name="answered", protocol="topics: answered\n")


def written(folder: Path, text: str) -> Lab:
    folder.mkdir(exist_ok=True)
    (folder / "lab.yaml").write_text(text)
    return read_lab(folder)


def test_what_is_made(tmp_path: Path) -> None:
    settings = {
        "title": "Answers: #1, “quoted”",
        "edition": "test",
        "measures": ("P@5", "AP"),
        "alpha": 0.01,
        "correction": "bonferroni",
        "family": 12,
        "deadline": "2026-09-01T23:59:59-12:00",
        "cap": 5,
        "cap_per_day": 2,
        "invalid_cap": 9,
        "results": 1000,
        "least_results": 3,
        "most_bytes": 10_000_000,
        "decimals": 3,
        "per_topic": False,
        "require": ("code",),
    }
    lab = tiny_lab(tmp_path / "labs" / "one", **settings)
    assert read_lab(lab.folder) == lab
    assert lab.deadline == datetime(2026, 9, 1, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12)))
    expected = {name: value for name, value in settings.items() if name != "deadline"}
    assert {name: getattr(lab, name) for name in settings if name != "deadline"} == expected
    assert set(files(lab.folder)) == {"lab.yaml", "journal.jsonl"}
    assert (lab.folder / "submissions").is_dir() and not (lab.folder / "private").exists()
    assert submissions(lab) == ()
    text = (lab.folder / "lab.yaml").read_text()
    others = ["private", "corpus", "protocol", "baseline", "feedback", "noise", "ladder", "held_out"]
    others.append("pseudonyms_until")
    for key in (*settings, *others):  # all keys stand there, set or in a comment
        assert sum(line.removeprefix("# ").startswith(f"{key}:") for line in text.splitlines()) == 1


def test_what_is_made_of_private_judgments(tmp_path: Path) -> None:
    """The edition asks for it, whatever the lab says."""
    lab = tiny_lab(tmp_path / "lab", collection="secret", cap=3, private=False)
    assert (lab.private, lab.per_topic, lab.decimals, lab.noise, lab.least_results) == (True, False, 1, 1.3, 10)
    assert lab.measures == ("nDCG", "AP", "P@5")  # not the share of results that are judged
    assert (lab.folder / "private").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        *literals("labs/lab_what_is_wrong"),
        ({"alpha": 10**399}, ["key 'alpha' is 1000000"]),
        ({"alpha": 10**400}, ["a number of 401 characters, expected at most 400"]),
    ],
)
def test_what_is_wrong(tmp_path: Path, changed: Mapping[str, Any], said: list[str]) -> None:
    settings = {"title": "A lab", "collection": "tiny", **changed}
    kept = {key: value for key, value in settings.items() if value is not None}
    with pytest.raises(HarnessError) as caught:
        written(tmp_path / "lab", yaml.safe_dump(kept).replace("'2026-09-01'", "2026-09-01"))
    text = str(caught.value)
    assert [part for part in said if part not in text and "datetime" not in part] == []
    assert len(caught.value.lines) == (len(said) if len(said) == 3 else 1)


def test_a_deadline_of_yaml(tmp_path: Path) -> None:
    """YAML reads an unquoted one as a date itself."""
    lab = written(tmp_path / "lab", "title: x\ncollection: tiny\ndeadline: 2026-09-01T23:59:59+02:00\n")
    assert lab.deadline is not None
    assert lab.deadline.utcoffset() is not None
    assert lab.deadline == datetime(2026, 9, 1, 23, 59, 59, tzinfo=timezone(timedelta(hours=2)))


def test_what_is_no_lab(tmp_path: Path) -> None:
    reason = r"nowhere: not a lab: the file lab.yaml is missing; check the path, or create a lab with"
    with pytest.raises(HarnessError, match=reason):
        read_lab(tmp_path / "nowhere")
    with pytest.raises(HarnessError, match=r"lab.yaml:2: not valid YAML"):
        written(tmp_path / "lab", "title: [")


def test_nothing_is_left_of_a_lab_that_cannot_be_made(tmp_path: Path) -> None:
    folder = tmp_path / "labs" / "one"
    with pytest.raises(HarnessError, match="key 'cap' is 0"):
        tiny_lab(folder, cap=0)
    bad = tmp_path / "bad.run"
    bad.write_text("T.1000 Q0 x 1 1 mine\nT.1 Q0 x 1 1 mine\n")
    with pytest.raises(HarnessError, match=r"topic 'T.1000' is not among"):
        open_lab(folder, {"title": "x", "collection": "tiny"}, bad)
    (tmp_path / "data" / "qrels.txt").write_text("T.1 0 x high\n")
    with pytest.raises(HarnessError, match="grade 'high' is not a finite number"):
        tiny_lab(folder)
    assert not folder.exists()
    assert list((tmp_path / "labs").glob(".*")) == []


def test_a_folder_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    with pytest.raises(HarnessError, match="lab: exists already; choose another folder"):
        new_lab(tmp_path / "lab", {"title": "x", "collection": "tiny"})


def test_a_baseline_needs_nothing_that_teams_must_say(tmp_path: Path) -> None:
    settings = {"title": "x", "collection": "tiny", "require": ["code"], "deadline": "2020-01-01T00:00:00Z"}
    lab = open_lab(tmp_path / "lab", settings, run_file(tmp_path / "b.run", 1, tag="linked"))
    assert [(each.name, each.primary) for each in submissions(lab)] == [("baseline / linked", True)]
