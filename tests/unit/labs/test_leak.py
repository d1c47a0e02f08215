"""Attacks on private judgments: what one submission, or many, may tell, and the rules that bound it."""

from __future__ import annotations

import hmac
import json
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lab_tools import DOCS, TOPICS, Conf, collection, enrol, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.cli.leaderboard import leaderboard as leaderboard_
from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import evaluate
from harness.experiments.task import Task, task
from harness.io.files import data_root, sha256
from harness.labs.acts import act, lab_faults, reveal
from harness.labs.draw import drawn, least_width, noise
from harness.labs.journal import Committed, Journal, Refunded, Revealed
from harness.labs.lab import Lab, new_lab, read_lab
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, leaderboard
from harness.labs.receipts import team_receipt as receipt
from harness.labs.shown_scores import public_and_held_out, verified_noise_key
from harness.labs.submissions import Submission, events, scores_of, submissions
from harness.labs.submit import Offer, Receipt, submit_run, withdraw_run
from harness.scoring.scores import Scores, rounded_to_step

ATTACKERS = tuple(f"invented-{n}" for n in range(16))


@pytest.fixture
def mini(tmp_path: Path) -> Lab:
    """A private lab on `mini-task1`, whose means are over 42 topics."""
    settings = {"title": "x", "collection": "mini-task1", "private": True, "feedback": "noisy", "cap": 1}
    return new_lab(tmp_path / "lab", settings | {"measures": ["RR", "nDCG", "P@10"]})


def asked(judged: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """16 documents of 16 topics, every other one relevant."""
    found = []
    for n, topic in enumerate(sorted(judged)[:16]):
        found.append((topic, next(doc for doc, g in sorted(judged[topic].items()) if (g >= 2) == (n % 2 == 0))))
    return found


def ask(lab: Lab, bench: Task, path: Path, team: str, question: tuple[str, str], results: int) -> Receipt:
    """Submits the one document asked for, with fillers below it and in 21 other topics."""
    topic, doc = question
    others = [other for other in bench.scorer.qrels.topics if other != topic][:21]
    fillers = [f"filler-{n}" for n in range(results)]
    ranked: dict[str, Sequence[str]] = {topic: [doc, *fillers[1:]], **dict.fromkeys(others, fillers)}
    path.write_text(run_text(ranked))
    return submit_run(lab, Offer(path, team), bench=bench)


def test_teams_cannot_be_invented(mini: Lab, tmp_path: Path) -> None:
    bench, before = mini.task(), files(mini.folder)
    for team, question in zip(ATTACKERS, asked(bench.scorer.qrels.to_dict()), strict=True):
        with pytest.raises(HarnessError, match=f"team '{team}': is not on the roster; add teams with 'harness lab"):
            ask(mini, bench, tmp_path / "r", team, question, 10)
    assert files(mini.folder) == before


def test_single_results_are_refused(mini: Lab, tmp_path: Path) -> None:
    bench = enrol(mini, *ATTACKERS).task()
    before = files(mini.folder)
    for team, question in zip(ATTACKERS, asked(bench.scorer.qrels.to_dict()), strict=True):
        with pytest.raises(HarnessError, match=r"has 1 result, expected at least 10 \(22 such topics\)"):
            ask(mini, bench, tmp_path / "r", team, question, 1)
    assert files(mini.folder) == before


# ---- noise -------------------------------------------------------------------------------------------------------


def by_hand(lab: Lab, kept: Submission, scores: Scores) -> float:
    """The mean that a lab shows, by the description in docs/private-judgments.md."""
    key, measure = (lab.folder / "private" / ".seed").read_text().strip(), lab.measures[0]
    text = "\0".join((scores.qrels_sha256, kept.team, kept.sha256, measure))
    share = int(hmac.new(key.encode(), text.encode(), "sha256").hexdigest()[:16], 16) / 2**64
    return round(scores.mean(measure) + lab.noise * (share - 0.5), lab.decimals)


def test_shown_means_by_hand(mini: Lab, tmp_path: Path) -> None:
    lab = enrol(replace(mini, cap=9, decimals=4), "A", "B")
    bench, told = lab.task(), []
    for team, name in (("A", "overlap"), ("A", "shuffle"), ("B", "overlap-title")):
        got = submit_run(lab, Offer(data_root() / f"runs/mini/mini-task1/{name}.run", team), bench=bench)
        shown, kept = got.submission.means, scores_of(lab, got.submission)
        assert shown["RR"] == by_hand(lab, got.submission, kept) != round(kept.mean("RR"), 4)
        assert abs(shown["RR"] - kept.mean("RR")) <= lab.noise / 2
        assert math.isnan(shown["nDCG"]) and math.isnan(shown["P@10"])  # these are shown at the end
        assert "Budget spent: " in receipt(lab, got).remark
        told.append(shown["RR"] - kept.mean("RR"))
    assert len({round(each, 3) for each in told}) == 3
    assert lab_faults(lab) == []
    # The same run of the same team gets the same noise, so that it cannot be averaged out.
    withdraw_run(lab, "B", "overlap-title")
    again = submit_run(lab, Offer(data_root() / "runs/mini/mini-task1/overlap-title.run", "B"), bench=bench)
    assert (again.made, again.submission.means["RR"]) == (2, got.submission.means["RR"])
    # Neither a line of the journal nor a file that may be published has the key.
    key = (lab.folder / "private" / ".seed").read_text().strip()
    assert all(key.encode() not in content for content in files(lab.folder, "private").values())


def test_one_judgment_moves_a_mean_by_a_tenth_of_the_width() -> None:
    """So the means under both values of it differ in distribution by at most 0.1, and a guess is right in 0.55."""
    for n in range(1, 3000):
        for most in (1.0, 0.3, 4.0):
            assert 10 * most / n <= least_width(n, most) * (1 + 1e-12) <= 11 * most / n * (1 + 1e-12)
    drawn_ = np.array([noise("a" * 64, "e", "A", str(n), "AP") for n in range(20_000)])
    assert drawn_.min() >= -0.5 and drawn_.max() < 0.5
    assert np.abs(np.histogram(drawn_, 10, (-0.5, 0.5))[0] / len(drawn_) - 0.1).max() < 4 * (0.09 / 20_000) ** 0.5
    # The best guess: the judgment is relevant if the mean, which moved up by a tenth, is above its least value by this.
    right = [np.mean((drawn_[::2] + 0.1 > cut).tolist() + (drawn_[1::2] <= cut).tolist()) for cut in (-0.4, 0.05, 0.5)]
    assert right == pytest.approx([0.55, 0.55, 0.55], abs=0.015)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_judgment_that_topics_share_moves_all_their_scores(tmp_path: Path, held_out: bool) -> None:
    """Four forms of each theorem have the same judgments: one moves the mean of 40 topics by 4 / 40."""
    settings = {"title": "x", "collection": "mini-theorems", "private": True, "feedback": "noisy", "cap": 9}
    settings |= {"held_out": held_out}
    lab = enrol(new_lab(tmp_path / "lab", settings), "A")
    assert lab.noise == (2.0 if held_out else 1.0)
    path, topics = tmp_path / "r", lab.task().scorer.qrels.topics
    path.write_text(run_text({topic: [f"filler-{n}" for n in range(10)] for topic in topics}))
    remark = receipt(lab, submit_run(lab, Offer(path, "A"))).remark
    assert f"of width {lab.noise:g} " in remark
    assert lab_faults(lab) == []


def test_a_refund_takes_back_no_answer(conf: Conf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    collection(conf, tmp_path / "data", judgments(), private=True)
    lab = tiny_lab(tmp_path / "lab", cap=1)
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    act(lab, Refunded, "A", "a")
    got = submit_run(lab, Offer(run_file(tmp_path / "r", 2), "A", "b"))
    assert (got.made, receipt(lab, got).remark.partition("Budget")[2]) == (1, " spent: 2 of 1 submissions.")
    leaderboard_(places=[str(lab.folder)])
    said = " ".join(capsys.readouterr().out.split())
    assert "Budget spent: at most 2 of 1 submissions by one team, 2 by all." in said


def test_noise_that_is_too_narrow(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    reason = r"key 'noise' is 1.2, expected at least 1.3: a narrower one shows one document's change"
    with pytest.raises(HarnessError, match=reason):
        tiny_lab(tmp_path / "lab", private=True, cap=9, noise=1.2)
    with pytest.raises(HarnessError, match="key 'step' is of earlier versions; means get noise, see key 'noise'"):
        tiny_lab(tmp_path / "lab", private=True, cap=9, step=0.5)
    assert not (tmp_path / "lab").exists()
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9)
    # Who edits the file does not get around it, and learns the width.
    path = lab.folder / "lab.yaml"
    path.write_text(path.read_text().replace("noise: 1.3", "noise: 0.01"))
    narrow = read_lab(lab.folder)
    got = submit_run(narrow, Offer(run_file(tmp_path / "r", 1), "A"))
    expected = by_hand(replace(lab, decimals=narrow.decimals), got.submission, scores_of(lab, got.submission))
    assert got.submission.means["nDCG"] == expected
    assert "of width 1.3 (±0.65)" in receipt(narrow, got).remark


def test_a_lab_without_feedback(mini: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No number and no rank is shown before the end, by which means and ranks are exact."""
    path = mini.folder / "lab.yaml"
    path.write_text(path.read_text().replace("feedback: noisy", "feedback: none").replace("cap: 1", "cap: 9"))
    lab = enrol(read_lab(mini.folder), "A", "B")
    for team, name in (("A", "shuffle"), ("B", "overlap")):
        got = submit_run(lab, Offer(data_root() / f"runs/mini/mini-task1/{name}.run", team))
        said = receipt(lab, got)
        assert (said.scores, said.ranked, said.against, said.rank) == ((), "", (), None)
        assert said.remark == "The judgments are private: no score is shown before the end."
        assert set(got.submission.means) == set(lab.measures) and all(map(math.isnan, got.submission.means.values()))
    assert lab_faults(lab) == []
    leaderboard_(places=[str(lab.folder)], as_json=True)
    (board,) = json.loads(capsys.readouterr().out)
    assert (board["ranked"], [each["name"] for each in board["others"]]) == ([], ["A / shuffle", "B / overlap"])
    assert {mean["value"] for each in board["others"] for mean in each["means"]} == {None}
    reveal(lab)
    leaderboard_(places=[str(lab.folder)], as_json=True, final=True)
    (board,) = json.loads(capsys.readouterr().out)
    exact = {f"{each.team} / {each.label}": scores_of(lab, each) for each in submissions(lab)}
    assert [each["name"] for each in board["ranked"]] == ["B / overlap", "A / shuffle"]
    for each in board["ranked"]:
        shown = {mean["measure"]: mean["value"] for mean in each["means"]}
        assert shown == pytest.approx({name: exact[each["name"]].mean(name) for name in lab.measures}, abs=0.00501)
    assert [each["group"] for each in board["ranked"]] == ["a", "b"]


def test_a_lab_of_before_there_was_noise(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its journal commits to no key: what was published stays, and new submissions show nothing until the end."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9)
    (lab.folder / "lab.yaml").write_text("title: x\ncollection: tiny\nprivate: true\ncap: 9\nstep: 0.5\n")
    (lab.folder / "journal.jsonl").write_text("")
    (lab.folder / "private" / ".seed").unlink()
    old = enrol(read_lab(lab.folder), "A", "B")
    scores = old.task().scorer(read_run(run_file(tmp_path / "r", 1)))
    before = {name: rounded_to_step(scores.mean(name), 0.5) for name in old.measures}
    with monkeypatch.context() as patch:
        patch.setattr("harness.labs.submit.shown_means", lambda *_: before)
        submit_run(old, Offer(run_file(tmp_path / "r", 1), "A"))
    got = submit_run(old, Offer(run_file(tmp_path / "r", 2), "B"))
    assert (got.standing, set(got.submission.means)) == (None, set(old.measures))
    assert all(map(math.isnan, got.submission.means.values()))
    assert lab_faults(old) == []
    leaderboard_(places=[str(old.folder)], as_json=True)
    first, second = json.loads(capsys.readouterr().out)[0]["ranked"]
    assert {mean["measure"]: mean["value"] for mean in first["means"]} == before
    assert {mean["value"] for mean in second["means"]} == {None}
    assert reveal(old) == ""
    leaderboard_(places=[str(old.folder)], as_json=True, final=True)
    assert len(json.loads(capsys.readouterr().out)[0]["ranked"]) == 2


# ---- the ladder --------------------------------------------------------------------------------------------------


def perfect(judged: Mapping[str, Mapping[str, int]], topics: Sequence[str]) -> dict[str, list[str]]:
    """Documents by their grades in some topics, unjudged ones in others."""
    ranked = {}
    for topic in TOPICS:
        docs = sorted(DOCS, key=lambda doc: -judged[topic].get(doc, -1))
        ranked[topic] = docs[:10] if topic in topics else docs[-10:]
    return ranked


def test_the_ladder_shows_only_clear_gains(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.shown_scores.noise", lambda *_: 0.0)
    monkeypatch.setattr("harness.labs.shown_scores.width_of", lambda *_: 0.2)
    judged = judgments()
    collection(conf, tmp_path / "data", judged)
    lab = tiny_lab(tmp_path / "lab", private=True, cap=99, ladder=True, measures=["nDCG@5"], decimals=3)
    bench, shown, where = lab.task(), [], []
    for count in (2, 3, 4, 8, 0):  # topics answered perfectly: exact means 0.25, 0.375, 0.5, 1, 0
        path = tmp_path / "r"
        path.write_text(run_text(perfect(judged, TOPICS[:count])))
        got = submit_run(lab, Offer(path, "A", f"with-{count}"), bench=bench)
        shown.append(got.submission.means["nDCG@5"])
        assert got.standing is not None
        where.append([(row.difference, row.p, row.significant) for row in got.standing.rows])
    # 0.375 is above 0.25 by no more than the width; 0.5 and 1 are; 0 does not lower it.
    assert [scores_of(lab, each).mean("nDCG@5") for each in submissions(lab)] == pytest.approx([0.25, 0.375, 0.5, 1, 0])
    assert shown == [0.25, 0.25, 0.5, 1.0, 1.0]
    assert {(p, significant) for rows in where for _, p, significant in rows} == {(None, None)}
    # Another team has a ladder of its own.
    path.write_text(run_text(perfect(judged, TOPICS[:6])))
    assert submit_run(lab, Offer(path, "B"), bench=bench).submission.means["nDCG@5"] == 0.75
    assert lab_faults(lab) == []


def submit_all(lab: Lab, bench: Task, folder: Path, seeds: Sequence[int]) -> None:
    """Submits runs of one team, better and better ones, to the limits of the ladder."""
    for seed in seeds:
        path = folder / f"{seed}"
        path.write_text(run_text(perfect(judgments(), TOPICS[: seed % 9]), f"r{seed}"))
        submit_run(lab, Offer(path, "A"), bench=bench)


@pytest.mark.slow
def test_several_runs_of_a_team_at_once(conf: Conf, tmp_path: Path) -> None:
    """Whatever their order, each is shown by the ladder of those before it in the journal."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=99, ladder=True, measures=["nDCG@5"])
    bench, context = lab.task(), multiprocessing.get_context("fork")
    shares = [range(at, 9, 3) for at in range(3)]
    started = [context.Process(target=submit_all, args=(lab, bench, tmp_path, share)) for share in shares]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 3
    shown = [each.means["nDCG@5"] for each in submissions(lab)]
    assert len(shown) == 9
    assert shown == sorted(shown)
    assert lab_faults(lab) == []


# ---- held-out topics ---------------------------------------------------------------------------------------------


def test_held_out_topics(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.shown_scores.noise", lambda *_: 0.0)
    judged = judgments()
    collection(conf, tmp_path / "data", judged)
    lab = tiny_lab(tmp_path / "lab", private=True, cap=99, held_out=True, measures=["nDCG@5"])
    first = json.loads((lab.folder / "journal.jsonl").read_text().splitlines()[0])
    key = (lab.folder / "private" / ".seed").read_text().strip()
    seed = sha256(key.encode())
    assert (first["event"], first["held_out"], first["seed_sha256"]) == ("committed", True, sha256(seed.encode()))
    for secret in (seed, key):
        assert all(secret.encode() not in content for content in files(lab.folder, "private").values())
    public, held = public_and_held_out(lab, events(lab), TOPICS)
    assert (len(public), len(held), public | held) == (4, 4, frozenset(TOPICS))
    path, bench = tmp_path / "r", lab.task()
    for label, topics, expected in (("held", sorted(held), 0.0), ("public", sorted(public), 1.0)):
        path.write_text(run_text(perfect(judged, topics)))
        assert submit_run(lab, Offer(path, "A", label), bench=bench).submission.means["nDCG@5"] == expected
    assert lab_faults(lab) == []
    # The commitment holds: another seed is refused, and so is a lab without one.
    (lab.folder / "private" / ".seed").write_text("0" * 64 + "\n")
    with pytest.raises(HarnessError, match=r"\.seed: is not the key that the journal commits to; restore it"):
        public_and_held_out(lab, events(lab), TOPICS)
    (lab.folder / "private" / ".seed").unlink()
    with pytest.raises(HarnessError, match=r"\.seed: missing: only the organisers have it"):
        public_and_held_out(lab, events(lab), TOPICS)
    (lab.folder / "private" / ".seed").write_text(f"{key}\n")
    assert reveal(lab) == seed
    (lab.folder / "private" / ".seed").unlink()
    assert public_and_held_out(lab, events(lab), TOPICS) == (
        public,
        held,
    )  # who has the published journal can draw them
    with pytest.raises(HarnessError, match=r"\.seed: missing"):  # but not the noise
        verified_noise_key(lab, events(lab))
    (lab.folder / "private" / ".seed").write_text(f"{key}\n")
    path.write_text(run_text(rankings(3)))
    with pytest.raises(HarnessError, match="the lab has ended; submit later runs with --kind post-hoc"):
        submit_run(lab, Offer(path, "B"), bench=bench)
    assert submit_run(lab, Offer(path, "B", kind="post-hoc"), bench=bench).submission.kind == "post-hoc"
    with pytest.raises(HarnessError, match="the lab has ended already; its seed is"):
        reveal(lab)


def test_a_lab_without_a_commitment(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9), held_out=True)
    with pytest.raises(HarnessError, match="the lab committed to no held-out topics, but key 'held_out' is true"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A"))
    with pytest.raises(HarnessError, match="its judgments are public; there is nothing to reveal"):
        reveal(replace(lab, private=False))


def test_held_out_topics_stay_held_out(conf: Conf, tmp_path: Path) -> None:
    """Who mistakes the key shows no mean of the other half."""
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9, held_out=True), held_out=False)
    for shows in (
        lambda: submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A")),
        lambda: public_and_held_out(lab, events(lab), TOPICS),
    ):
        with pytest.raises(HarnessError, match="lab: the lab committed to held-out topics, but key 'held_out' is not"):
            shows()
    assert submissions(lab) == ()


def test_a_commitment_is_the_first_line(conf: Conf, tmp_path: Path) -> None:
    """A later one could be to a seed that was chosen by the runs."""
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9), held_out=True)
    (lab.folder / "journal.jsonl").write_text("")
    enrol(lab, "A")
    journal = Journal(lab.folder)
    with journal.locked():
        journal.append(Committed(sha256(b"0" * 64), "2026-07-01T00:00:00+00:00"))
    (lab.folder / "private" / ".seed").write_text("0" * 64)
    with pytest.raises(HarnessError, match="committed to no held-out topics"):
        public_and_held_out(lab, events(lab), TOPICS)


def test_a_wrong_seed_in_the_journal(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9, held_out=True)
    journal = Journal(lab.folder)
    with journal.locked():
        journal.append(Revealed("0" * 64, "2026-07-01T00:00:00+00:00"))
    with pytest.raises(HarnessError, match=r"journal\.jsonl: the revealed seed is not that of the commitment"):
        public_and_held_out(lab, events(lab), TOPICS)


def test_the_draw_depends_on_seed_and_topics_only() -> None:
    names = [f"T.{n}" for n in range(101)]
    first = drawn("a" * 64, names)
    assert first == drawn("a" * 64, reversed(names)) != drawn("b" * 64, names)
    assert len(first) == 51
    # By hand: the lowest checksums of SEED:TOPIC.
    order = sorted(names, key=lambda name: sha256(f"{'a' * 64}:{name}".encode()))
    assert first == set(order[:51])
    clusters = {name: str(int(name[2:]) // 3) for name in names}
    for public in (drawn(str(seed), names, clusters) for seed in range(20)):
        assert all(
            len({other in public for other in names if clusters[other] == clusters[name]}) == 1 for name in names
        )


def test_what_a_lab_showed_is_what_its_leaderboard_shows_and_ranks() -> None:
    found = evaluate(task("mini-task1", measures=["nDCG"]), data_root() / "runs/mini/mini-task1/overlap.run")
    entries = [
        LeaderboardEntry(name, found.scores[0], shown={"nDCG": shown}) for name, shown in (("a", -0.02), ("b", 0.4))
    ]
    board = leaderboard(entries, LeaderboardSettings(private=True, untested="not yet"))
    assert [(each.name, each.means[0].value) for each in board.ranked] == [("b", 0.4), ("a", -0.02)]
    assert (board.grouping, board.why, {each.group for each in board.ranked}) == ("none", "not yet", {""})
