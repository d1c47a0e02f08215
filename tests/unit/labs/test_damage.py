"""Processes that are killed, files that are damaged: all of a submission or nothing, and nothing wrong is served."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lab_tools import Make, files, run_file

from harness.cli.leaderboard import leaderboard
from harness.data.trec import parse_run
from harness.errors import HarnessError
from harness.experiments.task import Task
from harness.labs.acts import lab_faults
from harness.labs.journal import Event, Journal, _line
from harness.labs.lab import Lab
from harness.labs.submissions import normal, scores_of, stored_run, submissions, tagged
from harness.labs.submit import Offer, choose_primary, submit_run, withdraw_run

NOW = datetime(2026, 7, 1, tzinfo=UTC)
KINDS = pytest.mark.parametrize("settings", [{}, {"private": True, "cap": 99}], ids=["public", "private"])


def in_child(work: Callable[[], object]) -> int:
    """Do something in a process of its own; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode or 0


def killed_at(step: int, lab: Lab, bench: Task, path: Path) -> None:
    """Submit, and end without any cleaning up before the file system is asked for something the `step`-th time."""
    left = [step]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" or event.startswith(("os.", "fcntl.", "shutil.", "tempfile.")):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    sys.addaudithook(count)
    submit_run(lab, Offer(path, "A", "a"), bench=bench, now=NOW)


@pytest.mark.heavy
def test_killed_at_every_step(make_lab: Make, tmp_path: Path) -> None:
    """Whatever the step, the next process finds all of the submission or nothing, and goes on."""
    lab = make_lab(private=True, cap=999)  # of which more files are written
    bench = lab.task()
    path = run_file(tmp_path / "a.run", 1)
    for seed in (0, 50):  # what these import, the children need not
        submit_run(lab, Offer(run_file(tmp_path / "other.run", seed), "first"), bench=bench, now=NOW)
    seen = Counter[bool]()
    for step in range(1, 500):
        code = in_child(lambda at=step: killed_at(at, lab, bench, path))  # type: ignore[misc]
        kept = [each for each in submissions(lab) if each.team == "A" and not each.withdrawn]
        if code == 0:
            break
        assert code == 9
        seen[bool(kept)] += 1
        if kept:  # all of it
            assert kept[0].run.is_file() and scores_of(lab, kept[0]).topics
            with pytest.raises(HarnessError, match="were submitted before as A / a"):
                submit_run(lab, Offer(path, "A", "a"), bench=bench, now=NOW)
            withdraw_run(lab, "A", "a", now=NOW)  # which removes what was left aside, too
        else:
            choose_primary(lab, "first", "mine", now=NOW)  # so does whoever takes the lock
        assert list((lab.folder / ".staging").iterdir()) == []
        assert {each.name for each in (lab.folder / "submissions").iterdir()} <= {"first", "A"}
        assert len(list(lab.folder.glob("submissions/A/*"))) == seen[True]
        assert len(list(lab.folder.glob("private/A/*"))) == seen[True]
    else:
        pytest.fail("it never ends")
    assert seen[False] > 20 and seen[True] > 2
    assert lab_faults(lab) == []
    assert list((lab.folder / "private").glob(".staging/*")) == []


@pytest.mark.slow
@KINDS
def test_a_line_that_was_cut_short_at_each_byte(
    make_lab: Make, tmp_path: Path, settings: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or that is missing: the submission is named and counts, the cut line is kept, and all is as before."""
    lab = make_lab(**settings)
    bench = lab.task()
    for seed, team in ((1, "A"), (2, "B")):
        offer = Offer(run_file(tmp_path / "r", seed), team, "trees", "In words: ü, {x}.", primary=True)
        submit_run(lab, offer, bench=bench, now=NOW)
    journal, torn = lab.folder / "journal.jsonl", lab.folder / "journal.torn"
    whole, listed = journal.read_bytes(), submissions(lab)
    last = whole[:-1].rindex(b"\n") + 1
    before = files(lab.folder)
    capsys.readouterr()
    for end in range(last, len(whole)):
        journal.write_bytes(whole[:end])
        assert submissions(lab) == listed
        cut = "is cut off" if end > last else "lines are missing"
        said = capsys.readouterr().err
        assert re.search(r"warning: .*/journal.jsonl: the last line(s)? .*; submissions/B/trees.v1 is added by", said)
        assert cut in said
        assert journal.read_bytes() == whole[:end]  # who only reads changes nothing
        if end % 100 == last % 100:  # it scores all runs
            assert lab_faults(lab) == [said.partition("warning: ")[2].strip()]
        choose_primary(lab, "A", "trees", now=NOW)
        assert re.search(r"; submissions/B/trees.v1 is added again", capsys.readouterr().err)
        assert journal.read_bytes().startswith(whole)
        assert submissions(lab) == listed
        assert capsys.readouterr().err == ""
        if end > last:
            assert torn.read_bytes().splitlines()[-1] == whole[last:end].rstrip(b"\n")
    assert lab_faults(lab) == []
    found = {name: data for name, data in files(lab.folder).items() if name in before} | {"journal.jsonl": whole}
    assert found == before
    assert len(torn.read_bytes().splitlines()) == len(whole) - last - 1


def test_a_cut_line_of_an_old_lab_without_copies_of_events(
    make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that has lost its checksum alone is whole; of others the folder is named, and nothing is deleted."""
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "trees"))
    (lab.folder / "submissions/A/trees.v1/entry.json").unlink()
    journal = lab.folder / "journal.jsonl"
    whole, before = journal.read_bytes(), files(lab.folder, "journal.jsonl")
    for lost in range(1, len(', "check": "0123456789abcdef"}\n')):
        journal.write_bytes(whole[:-lost])
        choose_primary(lab, "A", "trees")
        assert journal.read_bytes().startswith(whole)
    journal.write_bytes(whole[:-40])
    assert submissions(lab) == ()
    said = f"{lab.folder}/submissions/A/trees.v1: has no entry in the journal, and none can be made: "
    assert f"warning: {said}entry.json is missing or damaged" in capsys.readouterr().err
    with pytest.raises(HarnessError, match=r"A/trees.v1: exists without an entry in the journal; move it elsewhere"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 3), "A", "trees"))
    assert said in capsys.readouterr().err
    assert (lab.folder / "journal.torn").read_bytes().splitlines()[-1] == whole[:-40]
    assert journal.read_bytes() == b""
    assert before.items() <= files(lab.folder).items()
    assert any(line.startswith(said) for line in lab_faults(lab))


@pytest.mark.parametrize(
    ("name", "old", "reason"),
    [
        ("run.txt", b"A", "run.txt was changed"),
        ("SHA256SUMS", b"run", "SHA256SUMS was changed"),
        ("entry.json", b'"team": "A"', "entry.json is missing or damaged"),
        ("entry.json", b'"version"', "entry.json is missing or damaged"),
    ],
)
def test_an_entry_is_made_of_undamaged_files_alone(
    make_lab: Make, tmp_path: Path, name: str, old: bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab()
    place = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "trees")).submission.run.parent
    assert lab_faults(lab) == []
    (place / name).write_bytes((place / name).read_bytes().replace(old, b'"team": "B"', 1))
    assert len(lab_faults(lab)) == 1
    (lab.folder / "journal.jsonl").write_bytes(b"")
    assert submissions(lab) == ()
    assert f"trees.v1: has no entry in the journal, and none can be made: {reason}" in capsys.readouterr().err


def test_a_cut_line_of_another_event(make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "trees"))
    withdraw_run(lab, "A", "trees", reason="Wrong {file}.")
    journal = lab.folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-5])
    assert submissions(lab)[0].withdrawn
    assert "the last line is cut off; the event 'withdrawn' is added by" in capsys.readouterr().err
    journal.write_bytes(whole[:-60])
    assert not submissions(lab)[0].withdrawn
    with pytest.raises(HarnessError, match="has no run"):
        withdraw_run(lab, "A", "other")
    assert 'what it said is lost: {"at": ' in capsys.readouterr().err
    assert (lab.folder / "journal.torn").read_bytes().endswith(b"\n") and submissions(lab)


def test_several_lines_that_are_missing(make_lab: Make, tmp_path: Path) -> None:
    """As in a lab whose journal was restored from an older copy."""
    lab = make_lab()
    for seed in range(5):
        now = NOW + timedelta(seconds=seed)
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), "A", "b" if seed % 2 else "a"), now=now)
    journal = lab.folder / "journal.jsonl"
    rows, listed = journal.read_bytes().splitlines(keepends=True), submissions(lab)
    journal.write_bytes(rows[0])
    assert submissions(lab) == listed
    choose_primary(lab, "A", "b")
    assert journal.read_bytes().splitlines(keepends=True)[:5] == rows


def test_no_line_is_missing_while_a_submission_is_made(
    make_lab: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab()
    append = Journal.append

    def looked_at(self: Journal, event: Event) -> None:
        assert submissions(lab) == ()  # its folder is in place, and its line is not there yet
        append(self, event)

    monkeypatch.setattr(Journal, "append", looked_at)
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "trees"))
    assert capsys.readouterr().err == ""
    assert len(submissions(lab)) == 1


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda rows: [rows[0].replace(b"T0", b"T9"), *rows[1:]], 1),
        (lambda rows: rows[1:], 1),
        (lambda rows: [rows[0], rows[2], rows[1], rows[3]], 2),
        (lambda rows: [rows[0], *rows[2:]], 2),
        (lambda rows: [*rows, rows[-1]], 5),
        (lambda rows: [*rows[:3], b"{}\n", rows[3]], 4),
        (lambda rows: [*rows, b"\n"], 5),
        (lambda rows: [*rows, b"\xff\x00\n"], 5),
        (lambda rows: [*rows, b"[" * 100_000 + b"\n"], 5),
        (lambda rows: [*rows[:3], rows[3].replace(b'"version": 1', b'"version": 2')], 4),
        (lambda rows: [*rows[:3], re.sub(rb'"nDCG": 0.', b'"nDCG": 1.', rows[3])], 4),
    ],
)  # fmt: skip
def test_a_damaged_journal(
    make_lab: Make, tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    lab = make_lab()
    bench = lab.task()
    for seed in range(4):
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), f"T{seed}"), bench=bench)
    journal = lab.folder / "journal.jsonl"
    journal.write_bytes(b"".join(damage(journal.read_bytes().splitlines(keepends=True))))
    before = files(lab.folder)
    said = rf"journal.jsonl:{line}: damaged: the line was changed, or a line before it is missing"
    for act in (
        lambda: submissions(lab),
        lambda: submit_run(lab, Offer(run_file(tmp_path / "r", 9), "T9"), bench=bench),
        lambda: withdraw_run(lab, "T0", "mine"),
        lambda: lab_faults(lab),
    ):
        with pytest.raises(HarnessError, match=said):
            act()
    assert files(lab.folder) == before


@KINDS
@pytest.mark.parametrize("means", [{}, {"nDCG": 0.5}])
def test_a_journal_without_means(make_lab: Make, tmp_path: Path, settings: dict[str, object], means: object) -> None:
    """Its checksums are right, as those of a forged one are."""
    lab = make_lab(**settings)
    for team in ("A", "B"):
        submit_run(lab, Offer(run_file(tmp_path / team, ord(team)), team, "a"))
    path, before = lab.folder / "journal.jsonl", ""
    lines = []
    for line in path.read_text().splitlines():
        event = {name: value for name, value in json.loads(line).items() if name != "check"}
        if (event["event"], event.get("team")) == ("submitted", "A"):
            event["means"] = means
        lines.append(_line(event, before))
        before = json.loads(lines[-1])["check"]
    path.write_bytes(b"".join(lines))
    for reads in (
        lambda: submit_run(lab, Offer(run_file(tmp_path / "r", 3), "A", "b")),
        lambda: leaderboard(places=[str(lab.folder)], as_json=True),
    ):
        with pytest.raises(HarnessError, match=r"journal\.jsonl: damaged: A / a has no mean of "):
            reads()
    assert len(submissions(lab)) == 2


def test_a_journal_that_is_missing(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    (lab.folder / "journal.jsonl").unlink()
    with pytest.raises(HarnessError, match=r"journal.jsonl: cannot be read: No such file"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T"))


@KINDS
@pytest.mark.parametrize("name", ["scores.json", "SHA256SUMS"])
@pytest.mark.parametrize("how", ["changed", "empty", "gone"])
def test_damaged_scores_are_made_again(
    make_lab: Make, tmp_path: Path, settings: dict[str, object], name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab(**settings)
    kept = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission
    whole = scores_of(lab, kept)
    path = lab.folder / ("private" if settings else "submissions") / "T/mine.v1" / name
    before = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else before[:40] + b"X" + before[41:])
    if name == "SHA256SUMS" and not settings:
        with pytest.raises(HarnessError, match=r"SHA256SUMS: (damaged: the checksum differs|no such file)"):
            scores_of(lab, kept)
        return
    assert len(lab_faults(lab)) == 1
    assert scores_of(lab, kept).values.tolist() == whole.values.tolist()
    assert re.search(r"; scored again from .*run\.txt", capsys.readouterr().err)
    assert path.read_bytes() == before
    assert lab_faults(lab) == []


def test_a_damaged_run_is_not_scored(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    kept = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission
    text = kept.run.read_text()
    for changed in (text.replace("doc-1", "doc-2", 1), text[:-20], "", text.replace("T-mine", "T-yours")):
        kept.run.write_text(changed)
        assert scores_of(lab, kept).topics  # the kept ones are whole
        assert [line.partition(": ")[2] for line in lab_faults(lab)] == ["damaged: the checksum differs"]
    (kept.run.parent / "scores.json").write_text("{}")
    with pytest.raises(HarnessError, match=r"run.txt: damaged: differs from the submitted run"):
        scores_of(lab, kept)


def test_a_stored_run_is_that_which_writing_it_again_would_confirm(make_lab: Make, tmp_path: Path) -> None:
    """The checksum of the text without tags accepts and refuses the same bytes as writing the canonical text again."""
    lab, draw = make_lab(), random.Random(5)
    kept = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission
    whole = kept.run.read_bytes()
    lines = whole.splitlines(keepends=True)
    with_dash = [line.replace(b"\tT-mine\n", b"\t-\n") for line in lines]
    damaged = [
        b"".join(with_dash),
        b"".join([with_dash[0], *lines[1:]]),
        b"".join([*lines[1:], lines[0]]),
        whole.replace(b"\t", b" "),
        whole.replace(b"\n", b"\r\n"),
        whole[:-1],
        whole + b"\n",
        whole + lines[-1],
        whole.replace(b"\t1\t", b"\t01\t", 1),
        whole.replace(b".0\t", b".00\t", 1),
        b"",
    ]
    for _ in range(40):
        at = draw.randrange(len(whole))
        damaged.append(whole[:at] + bytes([(whole[at] + draw.randrange(1, 255)) % 256]) + whole[at + 1 :])
    for data in [whole, *damaged]:
        kept.run.write_bytes(data)
        try:
            run, text = normal(parse_run(data, "r", name="kept"), kept.name)
            same = run.sha256 == kept.sha256 and tagged(text, "T-mine").encode() == data
        except HarnessError:
            same = False
        assert same == (data == whole)
        if same:
            found = stored_run(kept)
            assert (found.name, found.sha256, found.topics) == (run.name, run.sha256, run.topics)
            assert all(
                getattr(found, name).tolist() == getattr(run, name).tolist() for name in ("topic", "doc", "score")
            )
        else:
            with pytest.raises(HarnessError, match="damaged: differs from the submitted run"):
                stored_run(kept)


def test_an_accepted_run_is_read_again(make_lab: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large; what is far larger unpacked is not."""
    monkeypatch.setattr("harness.labs.submissions.MOST_BYTES", 100)
    lab = make_lab()
    run = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission.run
    assert run.stat().st_size > 100
    assert lab_faults(lab) == []
    run.write_bytes(gzip.compress(b"x" * 1_000_000))
    (fault,) = [line for line in lab_faults(lab) if "run.txt" in line]
    assert "unpacks to more than" in fault


PUBLISHED = ["run.txt", "run.ir-metadata.yml", "means.json", "topics.csv", "SHA256SUMS"]


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("how", ["changed", "garbled", "gone"])
def test_damaged_files_of_a_private_lab(make_lab: Make, tmp_path: Path, name: str, how: str) -> None:
    lab = make_lab(private=True, cap=9, per_topic=True)
    path = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission.run.parent / name
    assert {each.name for each in path.parent.iterdir()} == {*PUBLISHED, "entry.json"}
    before = path.read_bytes()
    assert lab_faults(lab) == []
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"\xff\x00" if how == "garbled" else before.replace(b"0", b"1", 1))
    assert lab_faults(lab) == [f"{path}: {'no such file' if how == 'gone' else 'damaged: the checksum differs'}"]


@KINDS
def test_a_foreign_file_is_reported(make_lab: Make, tmp_path: Path, settings: dict[str, object]) -> None:
    lab = make_lab(**settings)
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T"))
    for root in ("submissions", *(["private"] if settings else [])):
        path = lab.folder / root / "T/mine.v1/notes.txt"
        path.write_text("")
        assert lab_faults(lab) == [f"{path}: is not listed in SHA256SUMS"]
        path.unlink()
    assert lab_faults(lab) == []


def test_a_check_without_private_scores_says_so_once(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(private=True, cap=9)
    first, _ = (submit_run(lab, Offer(run_file(tmp_path / "r", seed), f"T{seed}")).submission for seed in (1, 2))
    (lab.folder / "private").rename(tmp_path / "kept elsewhere")
    missing = f"{lab.folder / 'private'}: no such folder, exact scores are not checked; only the organisers have them"
    assert lab_faults(lab) == [missing]
    means = first.run.parent / "means.json"
    means.write_text("{}")
    assert lab_faults(lab) == [missing, f"{means}: damaged: the checksum differs"]


def test_a_published_copy_has_no_scores_of_topics(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(private=True, cap=9)
    kept = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "T")).submission
    (lab.folder / "private").rename(tmp_path / "kept elsewhere")
    assert submissions(lab) == (kept,)
    with pytest.raises(HarnessError, match="private: missing: only the organisers have"):
        scores_of(lab, kept)


def work(lab: Lab, bench: Task, folder: Path, teams: list[int]) -> None:
    """Submit two runs of each team, unless that is done already; one run is one that all teams try."""
    for team in teams:
        done = {each.label for each in submissions(lab) if each.team == f"T{team}"}
        for label in sorted({"0", "1"} - done):
            path = run_file(folder / f"{team}-{label}", 10 * team + int(label))
            submit_run(lab, Offer(path, f"T{team}", label), bench=bench)
        try:
            submit_run(lab, Offer(folder / "same", f"T{team}", "same"), bench=bench)
        except HarnessError as error:
            assert "the same rankings were submitted" in str(error)


@pytest.mark.slow
@KINDS
def test_many_at_once_and_some_killed(make_lab: Make, tmp_path: Path, settings: dict[str, object]) -> None:
    lab = make_lab(**settings)
    bench = lab.task()
    run_file(tmp_path / "same", 9999)
    context, draw = multiprocessing.get_context("fork"), random.Random(5)
    shares = [list(range(at, 12, 4)) for at in range(4)]
    started = [context.Process(target=work, args=(lab, bench, tmp_path, share)) for share in shares]
    for process in started:
        process.start()
    for _ in range(3):
        time.sleep(draw.uniform(0.01, 0.1))
        at = draw.randrange(4)
        started[at].kill()  # unless it is done already
        started[at].join()
        started[at] = context.Process(target=work, args=(lab, bench, tmp_path, shares[at]))
        started[at].start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 4
    found = Counter(each.label for each in submissions(lab))
    assert found == {"0": 12, "1": 12, "same": 1}
    assert len({each.folder for each in submissions(lab)}) == 25
    withdraw_run(lab, "T0", "0")
    assert list((lab.folder / ".staging").iterdir()) == []
    assert lab_faults(lab) == []
