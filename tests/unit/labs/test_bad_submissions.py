"""Submissions that are refused: each with its line, and the lab as it was."""

from __future__ import annotations

import gzip
import lzma
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from lab_tools import TOPICS, UNJUDGED, Make, files, rankings, run_file, run_text

from harness.errors import HarnessError
from harness.labs.submit import Offer, submit_run, withdraw_run

GOOD = run_text(rankings(1))
NAMES = "expected letters, digits and _.+=,@()~#%- only"
LATER = datetime(2026, 9, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Bad:
    """A submission of team `DPRL` that is refused.

    Attributes
    ----------
    content : of the run's file; None for none. `lab`: settings. `before`: seeds and teams of what was submitted before.
    """

    said: str
    content: bytes | str | None = GOOD
    offer: dict[str, Any] = field(default_factory=dict)
    lab: dict[str, Any] = field(default_factory=dict)
    before: tuple[tuple[int, str, str], ...] = ()
    name: str = "mine.run"


def lines(*changed: str) -> str:
    """The good run with further lines."""
    return GOOD + "".join(f"{line}\n" for line in changed)


def reordered() -> bytes:
    """Run 5 with its lines in another order, another tag, other ranks, packed."""
    rows = [line.split() for line in run_text(rankings(5)).splitlines()]
    text = "".join(f"{t}\tQ0\t{d}\t0\t{float(s):.3f}\tother\n" for t, _, d, _, s, _ in sorted(rows, reverse=True))
    return gzip.compress(text.encode())


BAD = {
    # What is no run.
    "missing": Bad("no such file", None),
    "folder": Bad(
        "is a folder without run.txt or run.txt.gz, expected a file, or a folder of TIRA",
        None,
        {"run": Path(__file__).parent},
    ),
    "device": Bad("is a device, expected a file", None, {"run": Path("/dev/null")}),
    "empty": Bad("empty file, expected at least one line", ""),
    "blank": Bad("empty file, expected at least one line", "\n \n"),
    "zero byte": Bad("binary file: byte 0x00", lines("T.1\0")),
    "utf-16": Bad("is UTF-16 text, expected UTF-8", GOOD.encode("utf-16")),
    "latin-1": Bad("byte 0xe9 is not UTF-8 text", GOOD.encode() + "T.1 Q0 caf\xe9 11 1 mine\n".encode("latin-1")),
    "json": Bad("2 columns, expected", '{"T.1": {}}\n{"T.2": {}}\n'),
    "three columns": Bad("3 columns, expected", "T.1 d1 3\n"),
    "seven columns": Bad("7 columns, expected", "T.1 Q0 d1 1 3 mine more\n"),
    "a column too few": Bad("5 columns like a TREC run", "T.1 Q0 d1 1 3\nT.1 Q0 d2 2 2\n"),
    "one short line": Bad(":81: 3 columns, expected 6", lines("T.1 Q0 d1")),
    "score a word": Bad(":81: score 'high' is not a finite number", lines("T.1 Q0 x 11 high mine")),
    "score nan": Bad(":81: score 'nan' is not a finite number", lines("T.1 Q0 x 11 nan mine")),
    "score infinite": Bad(":81: score '1e999' is not a finite number", lines("T.1 Q0 x 11 1e999 mine")),
    "rank a word": Bad(":81: rank 'first' is not a whole number", lines("T.1 Q0 x first 1 mine")),
    "document twice": Bad("document 'x' of topic 'T.1' is on line 81 already", lines(*["T.1 Q0 x 11 1 mine"] * 2)),
    "two tags": Bad(":81: run tag 'yours' differs from line 1's 'mine'", lines("T.1 Q0 x 11 1 yours")),
    "long id": Bad(":81: document id of 300 bytes, at most 255", lines(f"T.1 Q0 {'x' * 300} 11 1 mine")),
    "unknown topic": Bad(":81: topic 'T.1000' is not among the collection's topics", lines("T.1000 Q0 x 1 1 mine")),
    "other collection": Bad("is it a run of another collection?", GOOD.replace("T.", "A.")),
    "not judged": Bad("answers none of the judged topics", f"{UNJUDGED} Q0 x 1 1 mine\n"),
    "few topics": Bad(
        "answers 4 of 9 topics; with private judgments, a run must answer at least half of them",
        run_text(rankings(1, TOPICS[:4])),
        lab={"private": True, "cap": 9},
    ),
    # What does not unpack.
    "cut gzip": Bad("compressed file is cut short or damaged", gzip.compress(GOOD.encode())[:-9]),
    "damaged xz": Bad("compressed file is cut short or damaged", lzma.compress(GOOD.encode())[:-30] + b"\1" * 30),
    "bomb": Bad("unpacks to more than 5,000 bytes", gzip.compress(b"0" * 1_000_000), lab={"most_bytes": 5_000}),
    # Names.
    "tag no name": Bad(r"run tag 'a\u2028b' is not a name", GOOD.replace("mine", "a\u2028b")),
    # What was before.
    "duplicate in disguise": Bad(
        "the same rankings were submitted before as MIRMU / one", reordered(), before=((5, "MIRMU", "one"),)
    ),
    # What is wrong beside the run.
    **{name: Bad(said, GOOD, *more) for name, said, *more in literals("labs/bad_submissions")},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_is_refused(make_lab: Make, tmp_path: Path, bad: Bad) -> None:
    assert len(BAD) >= 40
    lab = make_lab(**bad.lab)
    early = datetime(2026, 8, 1, tzinfo=UTC)
    for seed, team, label in bad.before:
        submit_run(lab, Offer(run_file(tmp_path / f"{seed}.run", seed), team, label), now=early)
    path = tmp_path / bad.name
    if bad.content is not None:
        path.write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    before = files(lab.folder)
    with pytest.raises(HarnessError) as caught:
        submit_run(lab, Offer(**{"run": path, "team": "DPRL", **bad.offer}), now=datetime(2026, 9, 3, tzinfo=UTC))
    assert len(caught.value.lines) == 1
    assert bad.said in caught.value.lines[0]
    assert caught.value.lines[0].isprintable()
    assert files(lab.folder) == before
    assert not any((lab.folder / ".staging").glob("*"))


def test_all_faults_at_once(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(deadline="2026-09-01T00:00:00Z", cap=1, require=["code"])
    submit_run(
        replace(lab, require=()), Offer(run_file(tmp_path / "a", 1), "DPRL"), now=datetime(2026, 8, 1, tzinfo=UTC)
    )
    path = tmp_path / "run"
    path.write_text(lines("T.1 Q0 x 11 high mine", "T.1000 Q0 x 11 1 mine"))
    offer = Offer(path, "DPRL", "a b", description="", kind="robot", external_data="\x07")
    with pytest.raises(HarnessError) as caught:
        submit_run(lab, offer, now=LATER)
    said = [re.sub(r"^.*/run", "run", line) for line in caught.value.lines]
    expected = [
        "run:81: score 'high' is not a finite number",
        "run:82: topic 'T.1000' is not among",
        "label 'a b': expected",
        "kind 'robot' is unknown; known: automatic, manual, post-hoc",
        "description: is empty",
        "external data: '\\x07' contains unprintable",
        "code: is missing",
        "the deadline was 2026-09-01T00:00:00+00:00, the time is 2026-09-02T00:00:00+00:00",
        "team DPRL: has made 1 of 1 submissions, including withdrawn ones",
    ]
    assert len(said) == len(expected)
    assert [line.startswith(begin) for line, begin in zip(said, expected, strict=True)] == [True] * len(expected)


def test_a_withdrawn_run_may_be_submitted_again(make_lab: Make, tmp_path: Path) -> None:
    """As that of the right team, say."""
    lab, path = make_lab(), run_file(tmp_path / "a", 1)
    submit_run(lab, Offer(path, "MIRMU", "one"))
    withdraw_run(lab, "MIRMU", "one", reason="of another team")
    assert submit_run(lab, Offer(path, "DPRL", "one")).submission.version == 1


def test_the_private_folder_must_be_private(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(private=True, cap=3)
    (lab.folder / "private").chmod(0o755)
    with pytest.raises(HarnessError, match=r"private: others may read it \(mode 755\); chmod 700 it"):
        submit_run(lab, Offer(run_file(tmp_path / "a", 1), "DPRL"))


def test_what_is_late_is_post_hoc(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(deadline="2026-09-01T23:59:59+02:00")
    on_time = datetime(2026, 9, 1, 21, 59, 59, tzinfo=UTC)
    assert submit_run(lab, Offer(run_file(tmp_path / "a", 1), "DPRL", "a"), now=on_time).submission.primary
    late = submit_run(lab, Offer(run_file(tmp_path / "b", 2), "DPRL", "b", kind="post-hoc"), now=LATER).submission
    assert (late.kind, late.primary, late.current) == ("post-hoc", False, True)
    assert len(TOPICS) == late.answered
