"""Labs that change: frozen, reopened, extended, edited, judged otherwise; nothing private is told, nothing is mixed."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from lab_tools import Conf, Make, collection, enrol, files, judgments, run_file

from harness.cli import organiser_commands
from harness.cli.leaderboard import leaderboard
from harness.errors import HarnessError
from harness.labs import closing
from harness.labs.acts import act, lab_faults, rejudge, reveal
from harness.labs.closing import extend, freeze, reopen
from harness.labs.journal import Appealed, Disqualified, Extended, Frozen, Journal, Refunded, Reinstated
from harness.labs.lab import Lab, read_lab
from harness.labs.roster import add_team
from harness.labs.submissions import events, scores_of, submissions
from harness.labs.submit import Offer, choose_primary, submit_run, withdraw_run

NOW = datetime(2026, 8, 1, tzinfo=UTC)
LATER = datetime(2026, 9, 1, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12)))


def test_teams_can_change_nothing_in_a_frozen_lab_and_organisers_can(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(invalid_cap=3)
    add_team(lab, "A")
    for seed, label in ((1, "a"), (2, "b")):
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), "A", label), now=NOW)
    act(lab, Disqualified, "A", "a")
    expected = Frozen("we check the results", "2026-08-01T00:00:00+00:00")
    assert freeze(lab, " we check\nthe results ", now=NOW) == expected
    broken = tmp_path / "broken.run"
    broken.write_text("no run\n")
    before = files(lab.folder)
    tried: tuple[Callable[[], object], ...] = (
        lambda: submit_run(lab, Offer(run_file(tmp_path / "r", 3), "A", "c")),
        lambda: submit_run(lab, Offer(run_file(tmp_path / "r", 3), "A", "c", kind="post-hoc")),
        lambda: submit_run(lab, Offer(broken, "A")),
        lambda: withdraw_run(lab, "A", "b"),
        lambda: choose_primary(lab, "A", "b"),
        lambda: act(lab, Appealed, "A", "a", reason="Why?"),
    )
    for each in tried:
        with pytest.raises(HarnessError) as raised:
            each()
        (line,) = raised.value.lines
        assert line.endswith(
            "the lab is frozen by the organisers since 2026-08-01T00:00:00+00:00 (we check the results); "
            "nothing can be changed until they reopen it"
        )
        assert files(lab.folder) == before
    act(lab, Refunded, "A", "b")
    act(lab, Reinstated, "A", "a")
    extend(lab, LATER, now=NOW)
    add_team(lab, "B")
    with pytest.raises(HarnessError, match="lab: is frozen already, since 2026-08-01T00:00:00"):
        freeze(lab)
    reopen(lab, "all is right", now=NOW)
    with pytest.raises(HarnessError, match="lab: is not frozen"):
        reopen(lab)
    assert choose_primary(lab, "A", "b").primary
    submit_run(lab, Offer(run_file(tmp_path / "r", 3), "A", "c"), now=NOW)
    assert lab_faults(lab) == []


def test_a_run_that_is_scored_while_the_lab_is_frozen_is_not_stored(
    make_lab: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab is frozen after the run was read and before it is stored."""
    lab = make_lab()
    scored = lab.task().scorer

    class Slow:
        scorer = staticmethod(lambda run: (freeze(lab), scored(run))[1])

    Slow.scorer.qrels = scored.qrels  # type: ignore[attr-defined]
    before = files(lab.folder, "journal.jsonl")
    with pytest.raises(HarnessError, match="frozen by the organisers"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A"), bench=Slow)  # type: ignore[arg-type]
    assert submissions(lab) == ()
    assert files(lab.folder, "journal.jsonl") == before


def test_extending_keeps_every_other_line(make_lab: Make) -> None:
    lab = make_lab(deadline="2026-08-15T00:00:00Z", cap=5)
    path = lab.folder / "lab.yaml"
    path.write_text(f"# Mine.\n{path.read_text()}\n# deadline: an old one\n")
    before = path.read_text().splitlines()
    made = extend(lab, LATER, "a holiday", now=NOW)
    after = path.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    comment = "  # with time zone, such as 2026-09-01T23:59:59+02:00; later only post-hoc runs are accepted"
    expected = [(f"deadline: '2026-08-15T00:00:00Z'{comment}", f"deadline: '2026-09-01T23:59:59-12:00'{comment}")]
    assert changed == expected
    assert read_lab(lab.folder) == made
    assert made.deadline == LATER
    assert events(lab) == [Extended("2026-09-01T23:59:59-12:00", "a holiday", "2026-08-01T00:00:00+00:00")]


@pytest.mark.parametrize("seed", range(30))
def test_extending_any_form_of_the_file(make_lab: Make, seed: int) -> None:
    """The deadline changes and nothing else does, or the file stays as it is."""
    draw = random.Random(seed)
    lab = make_lab()
    old = draw.choice(["2026-08-15T00:00:00Z", "2026-08-15 00:00:00 +02:00", "null", ""])
    line = draw.choice(
        ["deadline: {}", "deadline:   '{}'", 'deadline: "{}"  # why', "deadline:\n  {}", "# deadline: {}", "# {}"]
    )
    line = line if old not in ("null", "") else draw.choice(["deadline: {}", "deadline: {} # no", "#deadline: {}"])
    lines = ["title: A lab  # the title", "collection: tiny", line.format(old), "rules: ['deadline: 1']", "about: |-"]
    lines += ["  deadline: in a text"]
    if draw.random() < 0.3:
        lines = ["{title: A lab, collection: tiny, deadline: 2026-08-15T00:00:00Z}"]
    text = draw.choice(["\n", "\r\n"]).join(lines)
    path = lab.folder / "lab.yaml"
    path.write_bytes(text.encode())
    before = yaml.safe_load(text)
    try:
        extend(lab, LATER, now=NOW)
    except HarnessError as error:
        assert "key 'deadline' cannot be replaced; write it in a line of its own" in error.lines[0]
        assert path.read_bytes() == text.encode()
        assert events(lab) == []
        assert len(lines) == 1 or "\n  " in line
    else:
        assert yaml.safe_load(path.read_bytes()) == {**before, "deadline": LATER.isoformat()}
        expected = [part for part in path.read_bytes().decode().splitlines() if "deadline:" not in part]
        assert [part for part in lines if "deadline:" not in part] == expected


def test_deadlines_that_are_refused(make_lab: Make) -> None:
    lab = make_lab(deadline="2026-08-15T00:00:00+02:00")
    before = files(lab.folder)
    for deadline, said in (
        (NOW - timedelta(seconds=1), "deadline 2026-07-31T23:59:59+00:00: is over already, the time is 2026-08-01"),
        (datetime(2026, 9, 1), "which has no time zone"),
        (datetime(2026, 8, 14, 21, tzinfo=UTC), "the present deadline is 2026-08-15T00:00:00+02:00; expected a later"),
        (datetime(2026, 8, 2, tzinfo=UTC), "to close the lab earlier, freeze it with 'harness lab freeze'"),
    ):
        with pytest.raises(HarnessError) as raised:
            extend(lab, deadline, now=NOW)
        assert said in raised.value.lines[0]
        assert files(lab.folder) == before


def test_no_deadline_after_the_reveal(make_lab: Make) -> None:
    lab = make_lab(private=True, cap=9, held_out=True)
    reveal(lab)
    with pytest.raises(HarnessError, match="the lab has ended; the deadline can no longer be changed"):
        extend(lab, LATER, now=NOW)


def test_a_killed_extension_is_completed_and_a_failed_one_undone(
    make_lab: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab()
    before = files(lab.folder)

    def fail(*_: object) -> None:
        raise HarnessError("the disk is full")

    with monkeypatch.context() as patch, pytest.raises(HarnessError, match="the disk is full"):
        patch.setattr(Journal, "append", fail)
        extend(lab, LATER, now=NOW)
    assert files(lab.folder) == before
    path = lab.folder / "lab.yaml"
    path.write_bytes(closing._with_deadline(path.read_bytes(), LATER.isoformat(), ""))  # killed before the journal
    extend(lab, LATER, now=NOW)
    assert len(events(lab)) == 1
    with pytest.raises(HarnessError, match="the present deadline is 2026-09-01T23:59:59-12:00; expected a later one"):
        extend(lab, LATER, now=NOW)


def test_a_rejudged_lab_is_frozen_too_and_keeps_its_deadline(conf: Conf, make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(deadline="2026-08-15T00:00:00Z")
    qrels = collection(conf, tmp_path / "data", judgments())
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"), now=NOW)
    lab = extend(lab, LATER, "a holiday", now=NOW)
    freeze(lab, "first")
    reopen(lab)
    submit_run(lab, Offer(run_file(tmp_path / "r", 2), "A", "b"), now=NOW)
    freeze(lab, "second")
    conf(
        "collection",
        "tiny",
        "name: tiny\ntitle: Tiny\nlicence: CC0\nprotocol: tiny-plain\ndefault_edition: test\n"
        f"editions: {{test: {{title: x, qrels: {{file: '{qrels}'}}}}, new: {{title: y, qrels: {{file: '{qrels}'}}}}}}\n"
        f"topics: {{reader: jsonl, file: '{tmp_path}/data/topics.jsonl'}}\n",
    )
    made = rejudge(lab, tmp_path / "again", "new")
    expected = [each for each in events(lab)[:-1] if not hasattr(each, "sha256")]
    assert [each for each in events(made) if not hasattr(each, "sha256")] == expected
    assert made.deadline == LATER
    with pytest.raises(HarnessError, match=r"frozen by the organisers since .* \(second\)"):
        withdraw_run(made, "A", "a")
    for function in (freeze, reopen, lambda lab: extend(lab, LATER + timedelta(1), now=NOW)):
        with pytest.raises(HarnessError, match="was re-judged and stays as it is"):
            function(lab)
    reopen(made)
    assert len(submissions(made)) == 2


def test_the_commands(make_lab: Make, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make_lab()
    organiser_commands.freeze(lab.folder, reason="a test")
    organiser_commands.extend(lab.folder, "2099-12-31T23:59:59-12:00")
    organiser_commands.reopen(lab.folder)
    frozen_line, extended, reopened = capsys.readouterr().out.splitlines()
    assert f"{lab.folder}: frozen since 20" in frozen_line
    assert extended == f"{lab.folder}: the deadline is 2099-12-31T23:59:59-12:00"
    assert f"{lab.folder}: reopened at 20" in reopened
    with pytest.raises(HarnessError, match="key 'deadline' is 'tomorrow', expected date, time and time zone"):
        organiser_commands.extend(lab.folder, "tomorrow")


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
