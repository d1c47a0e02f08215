"""Attacks on private judgments: what one submission, or many, may tell, and the rules that bound it."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from lab_tools import DOCS, TOPICS, Conf, collection, enrol, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.cli import lab as commands
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.evaluate import evaluate
from harness.experiments.task import Task, task
from harness.io.files import data_root, sha256
from harness.labs.acts import reveal
from harness.labs.check import check
from harness.labs.draw import drawn
from harness.labs.journal import Committed, Journal, Revealed
from harness.labs.lab import Lab, new_lab, read_lab
from harness.labs.leaderboard import Entry, Settings, leaderboard, leaderboards
from harness.labs.published import halves, shown_means
from harness.labs.submissions import events, scores_of, submissions
from harness.labs.submit import Offer, Receipt, submit
from harness.scoring.rounding import decimals_of, least_step, rounded

ATTACKERS = tuple(f"invented-{n}" for n in range(16))


@pytest.fixture
def mini(tmp_path: Path) -> Lab:
    """A private lab on `mini-task1`, whose means are over 42 topics."""
    settings = {"title": "x", "collection": "mini-task1", "private": True, "cap": 1, "measures": ["RR", "nDCG", "P@10"]}
    return new_lab(tmp_path / "lab", settings)


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
    return submit(lab, Offer(path, team), bench=bench)


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


@pytest.mark.parametrize("results", [1, 10])
def test_one_document_does_not_show(mini: Lab, tmp_path: Path, results: int) -> None:
    """By none of 16 teams of the roster, with or without fillers below: all that they get is the same."""
    lab = enrol(replace(mini, least_results=1), *ATTACKERS)
    bench, means, signs = lab.task(), [], []
    for team, question in zip(ATTACKERS, asked(bench.scorer.qrels.to_dict()), strict=True):
        got = ask(lab, bench, tmp_path / "r", team, question, results)
        means.append(json.loads((got.submission.run.parent / "means.json").read_text())["means"])
        assert got.standing is not None
        signs += [(got.standing.rank, row.difference, row.significant) for row in got.standing.rows]
    exact = [scores_of(lab, each).mean("RR") for each in submissions(lab)]
    assert [mean > 0 for mean in exact] == [n % 2 == 0 for n in range(16)]
    assert means == [{"RR": 0.0, "nDCG": 0.0, "P@10": 0.0}] * 16
    assert set(signs) == {(1, 0.0, None)}


def test_the_step_hides_one_topic() -> None:
    for n in range(1, 3000):
        step = least_step(n)
        assert 2 / n <= step <= max(5 / n, 2 / n + 1e-12)
        assert rounded(1 / n, step) == 0.0
        assert rounded(step, step) == step
        assert round(step, decimals_of(step)) == step
    for n in (7, 42, 78):
        step = least_step(n)
        for k in range(10 * n):  # one document changes the shown mean by a step at most
            base = k / (10 * n)
            assert round(rounded(min(1.0, base + 1 / n), step) - rounded(base, step), 9) in (0.0, step)


def test_a_step_that_is_too_small(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    reason = r"key 'step' is 0.05, expected at least 0.5: a smaller step shows one document's change with 8 topics"
    with pytest.raises(HarnessError, match=reason):
        tiny_lab(tmp_path / "lab", private=True, cap=9, step=0.05)
    assert not (tmp_path / "lab").exists()
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9, decimals=1)
    # Who edits the file does not get around it.
    path = lab.folder / "lab.yaml"
    path.write_text(path.read_text().replace("step: 0.5", "step: 0.01"))
    kept = submit(read_lab(lab.folder), Offer(run_file(tmp_path / "r", 1), "A")).submission
    assert set(kept.means.values()) <= {0.0, 0.5, 1.0}


def test_a_lab_of_before_there_were_steps(conf: Conf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file has no step and its journal has means of two decimals; new ones have the step."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9)
    path = lab.folder / "lab.yaml"
    path.write_text("title: x\ncollection: tiny\nprivate: true\ncap: 9\ndecimals: 3\n")
    old = read_lab(lab.folder)
    assert (old.step, old.decimals) == (0.001, 2)
    submit(old, Offer(run_file(tmp_path / "r", 1), "A"))
    assert check(old) == []
    assert set(submissions(old)[0].means.values()) <= {0.0, 0.5, 1.0}
    commands.submit(str(run_file(tmp_path / "r", 2)), lab.folder, team="A", organiser=True, label="two")
    assert "means are rounded to multiples of 0.5 and" in " ".join(capsys.readouterr().out.split())


# ---- the ladder --------------------------------------------------------------------------------------------------


def perfect(judged: Mapping[str, Mapping[str, int]], topics: Sequence[str]) -> dict[str, list[str]]:
    """Documents by their grades in some topics, unjudged ones in others."""
    ranked = {}
    for topic in TOPICS:
        docs = sorted(DOCS, key=lambda doc: -judged[topic].get(doc, -1))
        ranked[topic] = docs[:10] if topic in topics else docs[-10:]
    return ranked


def test_the_ladder_shows_only_clear_gains(conf: Conf, tmp_path: Path) -> None:
    judged = judgments()
    collection(conf, tmp_path / "data", judged)
    lab = tiny_lab(tmp_path / "lab", private=True, cap=99, ladder=True, measures=["nDCG@5"])
    assert (lab.step, read_lab(lab.folder).ladder) == (0.5, True)
    bench, shown, where = lab.task(), [], []
    for count in (2, 4, 3, 8, 0):  # topics answered perfectly: exact means 0.25, 0.5, 0.375, 1, 0
        path = tmp_path / "r"
        path.write_text(run_text(perfect(judged, TOPICS[:count])))
        got = submit(lab, Offer(path, "A", f"with-{count}"), bench=bench)
        shown.append(got.submission.means["nDCG@5"])
        assert got.standing is not None
        where.append([(row.difference, row.p, row.significant) for row in got.standing.rows])
    # 0.25 is half a step, rounded down; 0.5 is above 0 by no more than a step; 1 is; 0 does not lower it.
    assert [scores_of(lab, each).mean("nDCG@5") for each in submissions(lab)] == pytest.approx([0.25, 0.5, 0.375, 1, 0])
    assert shown == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert {(p, significant) for rows in where for _, p, significant in rows} == {(None, None)}
    # Another team has a ladder of its own.
    path.write_text(run_text(perfect(judged, TOPICS[:6])))
    assert submit(lab, Offer(path, "B"), bench=bench).submission.means["nDCG@5"] == 0.5
    assert check(lab) == []


def test_means_of_the_ladder_by_hand(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9, ladder=True, measures=["nDCG"])
    scores = lab.task().scorer(some_run())
    for exact, best, expected in ((0.6, 0.0, 0.5), (0.5, 0.0, 0.0), (0.51, 0.0, 0.5), (0.2, 0.5, 0.5), (1.0, 0.5, 0.5)):
        level = replace(scores, values=scores.values * 0 + exact)
        assert shown_means(lab, level, {"nDCG": best}) == {"nDCG": expected}
        assert shown_means(replace(lab, ladder=False), level, {"nDCG": best}) == {"nDCG": rounded(exact, 0.5)}


def some_run() -> Run:
    return Run.from_dict(
        "mine", {topic: {doc: 1.0 / n for n, doc in enumerate(docs, 1)} for topic, docs in rankings(1).items()}
    )


def submit_all(lab: Lab, bench: Task, folder: Path, seeds: Sequence[int]) -> None:
    """Submits runs of one team, better and better ones, to the limits of the ladder."""
    for seed in seeds:
        path = folder / f"{seed}"
        path.write_text(run_text(perfect(judgments(), TOPICS[: seed % 9]), f"r{seed}"))
        submit(lab, Offer(path, "A"), bench=bench)


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
    assert check(lab) == []


# ---- held-out topics ---------------------------------------------------------------------------------------------


def test_held_out_topics(conf: Conf, tmp_path: Path) -> None:
    judged = judgments()
    collection(conf, tmp_path / "data", judged)
    lab = tiny_lab(tmp_path / "lab", private=True, cap=99, held_out=True, measures=["nDCG@5"])
    first = json.loads((lab.folder / "journal.jsonl").read_text().splitlines()[0])
    seed = (lab.folder / "private" / ".seed").read_text().strip()
    assert (first["event"], first["seed_sha256"]) == ("committed", sha256(seed.encode()))
    assert all(seed.encode() not in content for content in files(lab.folder, "private").values())
    public, held = halves(lab, events(lab), TOPICS)
    assert (len(public), len(held), public | held) == (4, 4, frozenset(TOPICS))
    path, bench = tmp_path / "r", lab.task()
    for label, topics, expected in (("held", sorted(held), 0.0), ("public", sorted(public), 1.0)):
        path.write_text(run_text(perfect(judged, topics)))
        assert submit(lab, Offer(path, "A", label), bench=bench).submission.means["nDCG@5"] == expected
    assert check(lab) == []
    # The commitment holds: another seed is refused, and so is a lab without one.
    (lab.folder / "private" / ".seed").write_text("0" * 64 + "\n")
    with pytest.raises(HarnessError, match=r"\.seed: is not the seed whose SHA-256 the journal has"):
        halves(lab, events(lab), TOPICS)
    (lab.folder / "private" / ".seed").unlink()
    with pytest.raises(HarnessError, match=r"\.seed: missing: only the organisers have the seed until they reveal it"):
        halves(lab, events(lab), TOPICS)
    (lab.folder / "private" / ".seed").write_text(f"{seed}\n")
    assert reveal(lab) == seed
    (lab.folder / "private" / ".seed").unlink()
    assert halves(lab, events(lab), TOPICS) == (public, held)  # who has the published journal can draw them
    path.write_text(run_text(rankings(3)))
    with pytest.raises(HarnessError, match="the held-out topics are revealed; submit later runs with --kind post-hoc"):
        submit(lab, Offer(path, "B"), bench=bench)
    assert submit(lab, Offer(path, "B", kind="post-hoc"), bench=bench).submission.kind == "post-hoc"
    with pytest.raises(HarnessError, match="the seed is revealed already"):
        reveal(lab)


def test_a_lab_without_a_commitment(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9), held_out=True)
    with pytest.raises(HarnessError, match="key 'held_out' is true, but the first line of the journal"):
        submit(lab, Offer(run_file(tmp_path / "r", 1), "A"))
    with pytest.raises(HarnessError, match="has no held-out topics"):
        reveal(replace(lab, held_out=False))


def test_held_out_topics_stay_held_out(conf: Conf, tmp_path: Path) -> None:
    """Who mistakes the key shows no mean of the other half."""
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9, held_out=True), held_out=False)
    for shows in (
        lambda: submit(lab, Offer(run_file(tmp_path / "r", 1), "A")),
        lambda: halves(lab, events(lab), TOPICS),
    ):
        with pytest.raises(HarnessError, match="lab: the lab committed to held-out topics, but key 'held_out' is not"):
            shows()
    assert submissions(lab) == ()


def test_a_commitment_is_the_first_line(conf: Conf, tmp_path: Path) -> None:
    """A later one could be to a seed that was chosen by the runs."""
    collection(conf, tmp_path / "data", judgments())
    lab = replace(tiny_lab(tmp_path / "lab", private=True, cap=9), held_out=True)
    journal = Journal(lab.folder)
    with journal.locked():
        journal.append(Committed(sha256(b"0" * 64), "2026-07-01T00:00:00+00:00"))
    (lab.folder / "private" / ".seed").write_text("0" * 64)
    with pytest.raises(HarnessError, match="the first line of the journal has no seed's checksum"):
        halves(lab, events(lab), TOPICS)


def test_a_wrong_seed_in_the_journal(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=9, held_out=True)
    journal = Journal(lab.folder)
    with journal.locked():
        journal.append(Revealed("0" * 64, "2026-07-01T00:00:00+00:00"))
    with pytest.raises(HarnessError, match=r"journal\.jsonl: the revealed seed is not that of the commitment"):
        halves(lab, events(lab), TOPICS)


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


def test_letters_need_more_than_a_step() -> None:
    """A test of exact scores that turns significant would tell what the rounded means do not."""
    found = evaluate(task("mini-task1", measures=["nDCG"]), data_root() / "runs/mini/mini-task1/overlap.run")
    groups = {}
    for gap in (0.02, 0.06, 0.11):
        entries = []
        for name, mean in (("a", 0.5), ("b", 0.5 - gap)):
            values = found.scores[0].values * 0 + mean
            values[::2] += 0.001 if name == "a" else 0.0  # differences that are not all the same
            entries.append(Entry(name, replace(found.scores[0], values=values)))
        private, public = (leaderboard(entries, Settings(private=p, step=0.05 * p)) for p in (True, False))
        assert [each.group for each in public.ranked] == ["a", "b"]
        groups[gap] = [each.group for each in private.ranked]
        assert private.ranked[0].means[0].value == 0.5
    assert groups == {0.02: ["a", "a"], 0.06: ["a", "a"], 0.11: ["a", "b"]}
    (board,) = leaderboards(entries, Settings(private=True, step=0.05, untested="the ladder says no"))
    assert (board.grouping, board.why, [each.group for each in board.ranked]) == (
        "none",
        "the ladder says no",
        ["", ""],
    )
    # What a lab showed is what its leaderboard shows, and ranks.
    told = [replace(entry, shown={"nDCG": shown}) for entry, shown in zip(entries, (0.2, 0.4), strict=True)]
    board = leaderboard(told, Settings(private=True, step=0.05))
    assert [(each.name, each.means[0].value) for each in board.ranked] == [("b", 0.4), ("a", 0.2)]
