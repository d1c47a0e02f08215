"""Acts of organisers: refunds, disqualifications, appeals, re-judging, the final ranking; all in the journal."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import ANY

import pytest
from lab_tools import Conf, Make, collection, enrol, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.cli import organiser_commands
from harness.cli.leaderboard import leaderboard
from harness.errors import HarnessError
from harness.labs.acts import Kind, act, lab_faults, rejudge, reveal
from harness.labs.journal import Appealed, Disqualified, Journal, Refunded, Reinstated, Rejudged, Revealed
from harness.labs.lab import Lab, read_lab
from harness.labs.roster import add_team, revoke_team
from harness.labs.shown_scores import public_and_held_out, seed_of, shown_means, verified_noise_key
from harness.labs.submissions import events, scores_of, submissions
from harness.labs.submit import Offer, choose_primary, submit_run, withdraw_run

BEFORE = datetime(2026, 8, 1, tzinfo=UTC)  # the deadline


def test_a_disqualified_run_is_not_ranked(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    for seed, label in ((1, "a"), (2, "b")):
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), "A", label))
    done = act(lab, Disqualified, "A", "a", reason=" uses the\njudgments ")
    assert done.disqualified == "uses the judgments"
    assert (done.current, done.primary, done.withdrawn) == (False, False, False)
    assert [each.primary for each in submissions(lab)] == [False, True]  # the team's other run takes its place
    with pytest.raises(HarnessError, match="A / a: is disqualified already"):
        act(lab, Disqualified, "A", "a")
    with pytest.raises(HarnessError, match="the same rankings were submitted before as A / a"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 1), "B"))
    assert act(lab, Appealed, "A", "a", reason="It does not.").appeal == "It does not."
    assert act(lab, Appealed, "A", "a", reason="Really.").appeal == "Really."
    back = act(lab, Reinstated, "A", "a")
    assert (back.disqualified, back.current, back.primary, back.appeal) == ("", True, True, "Really.")
    assert back.reinstated == "-"
    for kind in (Appealed, Reinstated):
        with pytest.raises(HarnessError, match="A / a: is not disqualified"):
            act(lab, kind, "A", "a")
    again = act(lab, Disqualified, "A", "a")  # for no reason
    assert (again.disqualified, again.reinstated) == ("-", "")
    assert lab_faults(lab) == []


def test_a_disqualified_run_does_not_come_back_by_a_withdrawal(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    act(lab, Disqualified, "A", "a")
    withdraw_run(lab, "A", "a")
    with pytest.raises(HarnessError, match="the same rankings were submitted before as A / a"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "b"))
    act(lab, Reinstated, "A", "a", 1)
    assert submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "b")).made == 2


def test_acts_on_a_withdrawn_run(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    withdraw_run(lab, "A", "a")
    with pytest.raises(HarnessError, match="A / a: all versions are withdrawn; name one with --version"):
        act(lab, Refunded, "A", "a")
    assert act(lab, Refunded, "A", "a", 1).refunded


def test_refunds(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(cap=1)
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    with pytest.raises(HarnessError, match="team A: has made 1 of 1 submissions"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 2), "A", "b"))
    assert act(lab, Refunded, "A", "a").refunded
    with pytest.raises(HarnessError, match="A / a: is refunded already"):
        act(lab, Refunded, "A", "a")
    assert submit_run(lab, Offer(run_file(tmp_path / "r", 2), "A", "b")).made == 1


@pytest.mark.parametrize("reason", ["\x07", "x" * 2001])
def test_reasons_that_are_refused(make_lab: Make, tmp_path: Path, reason: str) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    before = files(enrol(lab, "B").folder)
    with pytest.raises(HarnessError, match="reason: expected printable text of at most 2,000 characters"):
        act(lab, Refunded, "A", "a", reason=reason)
    with pytest.raises(HarnessError, match="reason: expected printable text of at most 2,000 characters"):
        revoke_team(lab, "B", reason)
    assert files(lab.folder) == before


@pytest.mark.parametrize(("kind", "label"), [(Refunded, "b"), (Reinstated, "a"), (Appealed, "a"), (Disqualified, "b")])
def test_acts_on_what_is_not_there(make_lab: Make, tmp_path: Path, kind: Kind, label: str) -> None:
    """A journal whose checksums are right and whose events do not follow from each other."""
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    book = Journal(lab.folder)
    with book.locked():
        book.append(kind("A", label, 1, "", "2026-07-01T00:00:00+00:00"))
    reason = rf"journal.jsonl:2: damaged: {kind.event} A/{label}.v1, which does not exist or"
    with pytest.raises(HarnessError, match=reason):
        submissions(lab)


@pytest.fixture
def two_editions(conf: Conf, tmp_path: Path) -> Lab:
    """A lab with private judgments of the first of two editions."""
    qrels = {}
    for seed, name in ((1, "old"), (2, "new")):
        qrels[name] = collection(conf, tmp_path / name, judgments(seed))
    both = ", ".join(f"{name}: {{title: x, private: true, qrels: {{file: '{path}'}}}}" for name, path in qrels.items())
    conf(
        "collection",
        "tiny",
        "name: tiny\ntitle: Tiny\nlicence: CC0\nprotocol: tiny-plain\ndefault_edition: old\n"
        f"editions: {{{both}}}\ntopics: {{reader: jsonl, file: '{tmp_path}/old/topics.jsonl'}}\n",
    )
    return tiny_lab(tmp_path / "lab", cap=9, held_out=True, measures=["nDCG@5"])


@pytest.mark.slow
def test_judged_again(two_editions: Lab, tmp_path: Path) -> None:
    lab = two_editions
    for seed, team, label in ((1, "A", "a"), (2, "A", "b"), (3, "B", "a"), (4, "B", "c")):
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), team, label, description=f"run {seed}"))
    withdraw_run(lab, "B", "c")
    choose_primary(lab, "A", "b")
    act(lab, Disqualified, "B", "a")
    before = files(lab.folder)
    made = rejudge(lab, tmp_path / "again", "new", "more judgments")
    assert (made.edition, read_lab(made.folder)) == ("new", made)
    after = files(lab.folder)
    journal = after.pop("journal.jsonl").decode()
    assert {**before, "journal.jsonl": b""} == {**after, "journal.jsonl": b""}  # but for the last line of the journal
    last = json.loads(journal.splitlines()[-1])
    assert (last["event"], last["edition"], last["reason"]) == ("rejudged", "new", "more judgments")
    old, new = submissions(lab), submissions(made)
    same = ("name", "version", "sha256", "submitted", "current", "primary", "withdrawn", "disqualified", "description")
    for one, other in zip(old, new, strict=True):
        assert [getattr(one, key) for key in same] == [getattr(other, key) for key in same]
        assert scores_of(made, other).edition == "new"
        assert scores_of(made, other).values.tolist() != scores_of(lab, one).values.tolist()
        assert "edition: new" in (other.run.parent / "run.ir-metadata.yml").read_text()
    assert lab_faults(made) == [] == lab_faults(lab)
    with pytest.raises(HarnessError, match="lab: was re-judged and stays as it is"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 9), "A", "z"))
    with pytest.raises(HarnessError, match="lab: was re-judged and stays as it is"):
        rejudge(lab, tmp_path / "more", "new")
    assert submit_run(made, Offer(run_file(tmp_path / "r", 9), "A", "z")).made == 3


def test_the_seed_stays_when_a_lab_is_judged_again(two_editions: Lab, tmp_path: Path) -> None:
    """With another seed the organisers could try seeds until the ranking pleases, and each would show other halves."""
    lab = two_editions
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    first = (lab.folder / "journal.jsonl").read_text().splitlines()[0]
    made = rejudge(lab, tmp_path / "again", "new")
    assert (made.folder / "journal.jsonl").read_text().splitlines()[0] == first  # whose copy participants have
    assert public_and_held_out(made, events(made), judgments()) == public_and_held_out(lab, events(lab), judgments())
    with pytest.raises(HarnessError, match="lab: was re-judged and stays as it is"):
        reveal(lab)
    seed = reveal(made)
    assert seed_of(lab, events(made)) == seed
    more = rejudge(made, tmp_path / "more", "old")
    assert [event for event in events(more) if isinstance(event, Revealed)] == [Revealed(seed, ANY)]
    with pytest.raises(HarnessError, match="the lab has ended; submit later runs with --kind post-hoc"):
        submit_run(more, Offer(run_file(tmp_path / "r", 2), "A", "b"))


def test_a_lab_that_was_judged_again_stays_as_it_is(two_editions: Lab, tmp_path: Path) -> None:
    lab = two_editions
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    rejudge(lab, tmp_path / "again", "new")
    before = files(lab.folder)
    for late in (
        lambda: withdraw_run(lab, "A", "a"),
        lambda: choose_primary(lab, "A", "a"),
        lambda: act(lab, Disqualified, "A", "a"),
        lambda: add_team(lab, "late"),
        lambda: revoke_team(lab, "A"),
        lambda: rejudge(lab, tmp_path / "more", "new"),
    ):
        with pytest.raises(HarnessError, match="lab: was re-judged and stays as it is; use the lab of the new edition"):
            late()
    assert files(lab.folder) == before


@pytest.mark.parametrize(("noise", "kept"), [(None, 1.3), (2.0, 2.0)])
def test_noise_of_the_organisers_is_kept(two_editions: Lab, tmp_path: Path, noise: float | None, kept: float) -> None:
    made = rejudge(tiny_lab(tmp_path / "own", cap=9, noise=noise), tmp_path / "again", "new")
    assert made.noise == kept == read_lab(made.folder).noise


@pytest.mark.parametrize(("edition", "changed"), [("new", False), ("old", True), ("old", False)])
def test_other_judgments_have_other_noise(two_editions: Lab, tmp_path: Path, edition: str, changed: bool) -> None:
    """With equal noise, the difference of a run's two means would tell what the judgments differ by, also in a file
    that was corrected under its edition's name; and the same judgments again tell nothing more."""
    submit_run(two_editions, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    if changed:
        qrels = tmp_path / "old" / "qrels.txt"
        first, *rest = qrels.read_text().splitlines(keepends=True)
        qrels.write_text("".join((f"{first.rsplit(maxsplit=1)[0]} {2 - int(first.split()[3])}\n", *rest)))
    made = rejudge(two_editions, tmp_path / "again", edition)
    assert verified_noise_key(two_editions, events(two_editions)) == verified_noise_key(made, events(made)) != ""
    assert made.noise == two_editions.noise
    noises = []
    for lab in (two_editions, made):
        (run,) = submissions(lab)
        scores = scores_of(lab, run)
        public, _ = public_and_held_out(lab, events(lab), judgments())
        shown = shown_means(replace(lab, decimals=12), events(lab), scores.select(public), "A", run.sha256, {})
        noises.append(float(shown["nDCG@5"] or 0) - scores.select(public).mean("nDCG@5"))
    assert (noises[0] == pytest.approx(noises[1], abs=1e-9)) == (edition == "old" and not changed)


def killed_at(step: int, lab: Lab, folder: Path) -> None:
    """Re-judges, and ends without any cleaning up before the file system is asked for something the `step`-th time."""
    left = [step]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(("os.", "fcntl.", "shutil.", "tempfile.")):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    sys.addaudithook(count)
    rejudge(lab, folder, "new")


@pytest.mark.slow
def test_killed_while_judged_again(two_editions: Lab, tmp_path: Path) -> None:
    """The new lab is whole or absent, and the old one is closed only if it is whole."""
    lab = two_editions
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    seen = set()
    for step in range(1, 400, 7):
        folder = tmp_path / "new labs" / str(step)
        process = multiprocessing.get_context("fork").Process(target=killed_at, args=(step, lab, folder))
        process.start()
        process.join()
        closed = any(isinstance(event, Rejudged) for event in events(lab))
        seen.add((folder.exists(), closed))
        if folder.exists():
            assert lab_faults(read_lab(folder)) == []
            assert len(submissions(read_lab(folder))) == 1
        assert folder.exists() or not closed
        assert lab_faults(lab) == []
        if process.exitcode == 0:
            break
    assert {(False, False), (True, True)} <= seen


def test_nothing_is_left_of_a_lab_that_cannot_be_judged_again(two_editions: Lab, tmp_path: Path) -> None:
    lab = two_editions
    kept = submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a")).submission
    before = files(lab.folder)
    with pytest.raises(HarnessError, match="edition 'newer' is unknown"):
        rejudge(lab, tmp_path / "again", "newer")
    kept.run.write_text("T.1 Q0 x 1 1 A-a\n")
    with pytest.raises(HarnessError, match="damaged: differs from the submitted run"):
        rejudge(lab, tmp_path / "again", "new")
    assert not (tmp_path / "again").exists()
    expected = {"submissions/A/a.v1/run.txt"}
    assert {name for name, content in files(lab.folder).items() if content != before.get(name)} == expected


def test_the_final_ranking(
    make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is better on public topics may be worse on held-out ones."""
    monkeypatch.setattr("harness.labs.shown_scores.noise", lambda *_: 0.0)
    judged = judgments()
    lab = make_lab(private=True, cap=9, held_out=True, deadline="2026-09-01T00:00:00Z", measures=["P@5"])
    public, held = public_and_held_out(lab, events(lab), judged)
    for team, good in (("A", public), ("B", held)):
        ranked = {}
        for topic, docs in rankings(1).items():
            best = sorted(judged[topic], key=lambda doc, topic=topic: -judged[topic][doc])  # type: ignore[misc]
            ranked[topic] = best[:10] if topic in good else docs
        path = tmp_path / team
        path.write_text(run_text(ranked))
        submit_run(lab, Offer(path, team), now=BEFORE)
    place = str(lab.folder)
    with pytest.raises(HarnessError, match="has not ended; end it with 'harness lab reveal'"):
        leaderboard(places=[place], final=True)
    leaderboard(places=[place], formats="json")
    assert _first(capsys) == "A / mine"
    with pytest.raises(HarnessError, match=r"the deadline, 2026-09-01T00:00:00\+00:00, is not over"):
        reveal(lab, now=BEFORE)
    organiser_commands.reveal(lab.folder)
    seed = capsys.readouterr().out.split()[5]
    leaderboard(places=[place], formats="json", final=True)
    assert _first(capsys) == "B / mine"
    assert (lab.folder / "final" / "report.json").is_file()
    organiser_commands.topics(lab.folder)
    said = capsys.readouterr().out
    assert said.startswith(f"seed: {seed}; its SHA-256 is that in the journal: ")
    assert f"held out (4): {' '.join(sorted(held))}" in said
    with pytest.raises(HarnessError, match="--final: only labs have an end"):
        leaderboard(places=[str(tmp_path / "A")], final=True)


def test_no_team_chooses_its_final_run_by_the_final_ranking(
    make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The primary runs as of the reveal are ranked; a withdrawn one is not replaced, a disqualified one is."""
    lab = make_lab(private=True, cap=9, held_out=True, measures=["P@5"])
    for team in ("A", "B", "DPRL"):
        for seed, label in ((1, "a"), (2, "b")):
            submit_run(lab, Offer(run_file(tmp_path / "r", seed + 10 * ord(team[0])), team, label))
    choose_primary(lab, "A", "b")
    act(lab, Disqualified, "DPRL", "a")
    reveal(lab)
    with pytest.raises(HarnessError, match="the lab has ended; primary runs can no longer be chosen"):
        choose_primary(lab, "A", "a")

    def ranked() -> list[str]:
        leaderboard(places=[str(lab.folder)], as_json=True, final=True)
        return sorted(each["name"] for each in json.loads(capsys.readouterr().out)[0]["ranked"])

    assert ranked() == ["A / b", "B / a", "DPRL / b"]
    withdraw_run(lab, "B", "a")
    assert ranked() == ["A / b", "DPRL / b"]
    act(lab, Reinstated, "DPRL", "a")  # an appeal was right: its first run is ranked
    act(lab, Disqualified, "A", "b")
    assert ranked() == ["A / a", "DPRL / a"]


def _first(capsys: pytest.CaptureFixture[str]) -> str:
    """The name of the first run of a printed leaderboard."""
    return " ".join(capsys.readouterr().out.splitlines()[1].split()[:3])


def test_the_organisers_commands(make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make_lab()
    organiser_commands.list_(lab.folder)
    organiser_commands.add(lab.folder, "A")
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    organiser_commands.refund(lab.folder, "A", "a", reason="a test")
    organiser_commands.disqualify(lab.folder, "A", "a")
    organiser_commands.reinstate(lab.folder, "A", "a")
    organiser_commands.list_(lab.folder)
    organiser_commands.revoke(lab.folder, "A")
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("lab: no team was added yet")
    assert said[1].startswith("team A: may submit with HARNESS_TOKEN=")
    assert said[2:5] == [
        "A / a: does not count towards the caps of A",
        "A / a: disqualified; the team can appeal with 'harness lab appeal'",
        "A / a: reinstated",
    ]
    assert [row.split() for row in said[5:7]] == [
        ["team", "name", "token", "submissions", "refunded", "invalid", "files"],
        ["A", "A", "valid", "1", "1", "0"],
    ]
    assert said[7] == "team A: its token is revoked"
