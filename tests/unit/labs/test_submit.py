"""Submissions, versions, the primary run, withdrawal; what is kept, and that it is what was submitted."""

from __future__ import annotations

import gzip
import json
import math
import random
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from archive_tools import placed, tarred, zipped
from lab_tools import TOPICS, Conf, Make, collection, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.data.trec import Run, read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import compare, evaluate
from harness.io import files as io_files
from harness.io.files import data_root
from harness.labs.acts import lab_faults
from harness.labs.journal import is_name, label_of_tag
from harness.labs.lab import Lab, read_lab
from harness.labs.receipts import team_receipt
from harness.labs.standing import standing
from harness.labs.submissions import find_submission, normal, scores_of, submissions
from harness.labs.submit import Offer, choose_primary, open_lab, submit_run, withdraw_run


def flags(lab: Lab) -> dict[str, tuple[bool, bool, bool]]:
    """Title -> whether it is current, primary, withdrawn."""
    return {each.title: (each.current, each.primary, each.withdrawn) for each in submissions(lab)}


def test_what_is_kept(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    path = run_file(tmp_path / "r.run", 1, tag="whatever")
    offer = Offer(
        path, "DPRL", "first", "A  run,\nmade of two.", "manual", "https://example.org/code", "the whole of arXiv"
    )
    now = datetime(2026, 7, 1, 12, tzinfo=UTC)
    kept = submit_run(lab, offer, now=now).submission
    assert (kept.name, kept.version, kept.kind) == ("DPRL / first", 1, "manual")
    assert kept.submitted == "2026-07-01T12:00:00+00:00"
    assert (kept.description, kept.code) == ("A run, made of two.", offer.code)
    assert kept.external_data == "the whole of arXiv"
    assert submissions(lab) == (kept,)
    folder = lab.folder / "submissions" / "DPRL" / "first.v1"
    assert kept.run == folder / "run.txt"
    assert set(files(folder)) == {"run.txt", "run.ir-metadata.yml", "scores.json", "SHA256SUMS", "entry.json"}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    # The kept run has the same scores as what was brought, and those are the kept ones.
    bench = lab.task()
    again = [bench.scorer(read_run(each)).values.tolist() for each in (path, kept.run)]
    scores = scores_of(lab, kept)
    assert again[0] == again[1] == scores.values.tolist()
    assert scores.run == "DPRL / first"
    assert kept.means == {measure: scores.mean(measure) for measure in lab.measures}
    assert read_run(kept.run).name == "DPRL-first"
    said = yaml.safe_load((folder / "run.ir-metadata.yml").read_text())
    assert said["actor"] == {"team": "DPRL"}
    assert said["method"]["automatic"] is False
    assert said["implementation"]["source"]["repository"] == offer.code
    assert said["lab"]["description"] == "A run, made of two."
    assert lab_faults(lab) == []


def test_a_run_without_judged_documents_is_doubted_if_judgments_are_public(make_lab: Make, tmp_path: Path) -> None:
    path = tmp_path / "r.run"
    path.write_text("".join(f"{TOPICS[0]} Q0 x{n} {n} {-n} r\n" for n in range(1, 12)))
    said = submit_run(make_lab(), Offer(path, "A")).notes
    assert any("none of its 11 documents is judged, such as 'x1'" in note for note in said)


@pytest.mark.parametrize("tag", ["intfloat/e5-base", "../x", "-x", ".x", "a&b<c>", "m" * 200, "\N{GRINNING FACE}"])
def test_any_tag_gives_a_label(make_lab: Make, tmp_path: Path, tag: str) -> None:
    lab, path = make_lab(), run_file(tmp_path / "r.run", 1)
    path.write_text("".join(f"{line.rsplit(None, 1)[0]} {tag}\n" for line in path.read_text().splitlines()))
    receipt = submit_run(lab, Offer(path, "A"))
    kept = receipt.submission
    assert kept.label == label_of_tag(tag) and is_name(kept.label)
    assert any("is no label: kept as" in note for note in receipt.notes)
    assert kept.run.is_relative_to(lab.folder / "submissions" / "A") and lab_faults(lab) == []


def test_what_made_the_run_is_kept_with_it(make_lab: Make, tmp_path: Path) -> None:
    lab, path = make_lab(), run_file(tmp_path / "r.run", 1)
    side = {"platform": {"hardware": {"cpu": {"model": "8086"}}}, "actor": {"team": "somebody else"}, "odd": 1}
    (tmp_path / "r.ir-metadata.yml").write_text(yaml.safe_dump(side))
    said = yaml.safe_load((submit_run(lab, Offer(path, "A")).submission.run.parent / "run.ir-metadata.yml").read_text())
    assert said["platform"] == side["platform"]
    assert said["actor"] == {"team": "A"}
    assert "odd" not in said
    (tmp_path / "s.ir-metadata.yml").write_text(yaml.safe_dump({**side, "harness": {"sha256": "of another run"}}))
    receipt = submit_run(lab, Offer(run_file(tmp_path / "s.run", 2), "A", "s"))
    (note,) = receipt.notes
    assert note.endswith("s.ir-metadata.yml: belongs to another run, or the run was changed; ignored")


def test_one_form_for_all_files() -> None:
    """Order of topics and lines, tags, ranks, blanks and packing make no other run; a score does."""
    one = Run.from_dict("a", {"T.2": {"x": 1.0, "y": 2.0}, "T.1": {"x": 0.5}})
    two = Run.from_dict("b", {"T.1": {"x": 0.5}, "T.2": {"y": 2.0, "x": 1.0}})
    assert normal(one, "A / a")[1] == normal(two, "B / b")[1]
    other = Run.from_dict("a", {"T.2": {"x": 1.0, "y": 2.0}, "T.1": {"x": 0.75}})
    assert normal(one, "A / a")[0].sha256 != normal(other, "A / a")[0].sha256
    # Among equal scores the order of the file may count.
    tied, turned = (Run.from_dict("a", {"T.1": dict.fromkeys(docs, 1.0)}) for docs in ("xy", "yx"))
    assert normal(tied, "A / a")[1] != normal(turned, "A / a")[1]


def test_formulas_keep_their_posts(tmp_path: Path) -> None:
    from harness.labs.lab import new_lab

    lab = new_lab(tmp_path / "lab", {"title": "Formulas", "collection": "mini-task2"})
    rows = [line.split() for line in (data_root() / "runs/mini/mini-task2/overlap.run").read_text().splitlines()]
    path = tmp_path / "formulas.tsv"
    path.write_text("".join(f"{t}\t{d}\tp_{n}\t{r}\t{s}\tmine\n" for n, (t, _, d, r, s, _) in enumerate(rows)))
    submit_run(lab, Offer(path, "A"))
    kept = submissions(lab)[0]
    before, after = read_run(path), read_run(kept.run)
    assert before.context is not None and after.context is not None
    assert sorted(before.context.tolist()) == sorted(after.context.tolist())
    assert lab_faults(lab) == []


def test_versions_and_the_primary_run(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    for seed, label in ((1, "a"), (2, "b"), (3, "b")):
        submit_run(lab, Offer(run_file(tmp_path / f"{seed}", seed), "A", label))
    expected = {"A / a": (True, True, False), "A / b": (False, False, False), "A / b, version 2": (True, False, False)}
    assert flags(lab) == expected
    assert choose_primary(lab, "A", "b").title == "A / b, version 2"
    assert [title for title, (_, primary, _) in flags(lab).items() if primary] == ["A / b, version 2"]
    submit_run(lab, Offer(run_file(tmp_path / "4", 4), "A", "b"))  # a new version of the primary run is the primary run
    assert [title for title, (_, primary, _) in flags(lab).items() if primary] == ["A / b, version 3"]
    submit_run(lab, Offer(run_file(tmp_path / "5", 5), "A", "c", primary=True))
    assert [title for title, (_, primary, _) in flags(lab).items() if primary] == ["A / c"]
    withdraw_run(lab, "A", "c")
    assert [title for title, (_, primary, _) in flags(lab).items() if primary] == ["A / a"]
    assert find_submission(submissions(lab), "A", "c", 1).withdrawn


def test_withdrawal_leaves_a_trace(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    for seed in (1, 2):
        submit_run(lab, Offer(run_file(tmp_path / f"{seed}", seed), "A", "a"))
    done = withdraw_run(lab, "A", "a", reason="two topics\tswapped")
    assert (done.version, done.withdrawn, done.reason) == (2, True, "two topics swapped")
    assert done.run.is_file()
    assert flags(lab) == {"A / a": (True, True, False), "A / a, version 2": (False, False, True)}
    with pytest.raises(HarnessError, match="A / a, version 2 was withdrawn already"):
        withdraw_run(lab, "A", "a", 2)
    withdraw_run(lab, "A", "a")
    with pytest.raises(HarnessError, match=r"A / a was withdrawn already$"):
        withdraw_run(lab, "A", "a")
    expected = [*["submitted"] * 2, *["withdrawn"] * 2]
    assert [json.loads(line)["event"] for line in (lab.folder / "journal.jsonl").read_text().splitlines()] == expected
    submit_run(lab, Offer(run_file(tmp_path / "3", 3), "A", "a"))
    assert flags(lab)["A / a, version 3"] == (True, True, False)
    assert lab_faults(lab) == []


@pytest.mark.parametrize(
    ("team", "label", "version", "said"),
    [
        ("B", "a", None, "team 'B' has submitted nothing; known: A"),
        ("A", "aa", None, "team A has no run 'aa'; did you mean 'a'?"),
        ("A", "a", 2, "A / a has no version 2; it has 1"),
        ("A", "a", 0, "A / a has no version 0; it has 1"),
    ],
)
def test_what_is_not_there(
    make_lab: Make, tmp_path: Path, team: str, label: str, version: int | None, said: str
) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "A", "a"))
    with pytest.raises(HarnessError) as caught:
        withdraw_run(lab, team, label, version)
    assert caught.value.lines == (said,)


def test_what_a_team_is_told(make_lab: Make, tmp_path: Path, conf: Conf) -> None:
    """The comparisons are those that `harness compare` makes of the same runs; only ranked pairs are corrected."""
    base, *paths = [run_file(tmp_path / f"{seed}.run", seed, tag=f"r{seed}") for seed in range(1, 6)]
    lab = open_lab(tmp_path / "led", {"title": "Led", "collection": "tiny"}, base)
    assert read_lab(lab.folder) == lab
    assert lab.baseline == "baseline / r1"
    found = None
    for path, team in zip(paths, ("A", "B", "A", "A"), strict=True):
        found = submit_run(lab, Offer(path, team)).standing
    assert found is not None
    means = {each.name: each.means["nDCG"] for each in submissions(lab)}
    best = max(("baseline / r1", "A / r2", "B / r3"), key=lambda name: means[name])  # of the ranked runs
    expected = {name: [] for name in means if name != "A / r5"}  # type: dict[str, list[str]]
    expected["baseline / r1"].append("baseline")
    expected[best].append("best ranked run")
    for label in ("r2", "r4"):
        expected[f"A / {label}"].append("earlier run")
    wanted = {name: roles for name, roles in expected.items() if roles}
    assert {row.name: list(row.roles) for row in found.rows} == wanted
    others = [means[name] for name in ("baseline / r1", "B / r3")]  # what else could be ranked if A chose r5
    assert (found.rank, found.runs) == (1 + sum(mean > means["A / r5"] for mean in others), 3)
    by_hand = compare(evaluate(lab.task(), *(base, *paths)), "r5", measures=["nDCG"])
    rows = {row.a: row for row in by_hand.rows}
    smallest = [rows[row.name.partition(" / ")[2]] for row in found.rows]
    for row, other in zip(found.rows, smallest, strict=True):
        assert row.difference == pytest.approx(-other.difference, abs=1e-15)
        assert row.mean == pytest.approx(other.mean_a, abs=1e-15)
        assert row.p == pytest.approx(other.p)
        assert (row.corrected, row.significant) == (False, None)  # A / r5 is not ranked
    assert found.tests == "paired t-test, not corrected: no two of these runs are ranked"
    chosen = submit_run(lab, Offer(run_file(tmp_path / "6.run", 6, tag="r6"), "C")).standing
    assert chosen is not None and chosen.ranked
    # The family is that of the leaderboard: all pairs of the four ranked runs, by Holm's correction.
    ranked = {"r1": "baseline / r1", "r2": "A / r2", "r3": "B / r3", "r6": "C / r6"}
    runs = [tmp_path / f"{name[1]}.run" for name in ranked]
    family = compare(evaluate(lab.task(), *runs), measures=["nDCG"])
    assert family.family == 6
    holm = {frozenset((ranked[row.a], ranked[row.b])): row.p_holm for row in family.rows}
    for row in chosen.rows:
        assert row.corrected
        assert row.p == pytest.approx(holm[frozenset(("C / r6", row.name))])
    assert chosen.tests == "paired t-test, Holm's correction over 6 tests, alpha 0.05"


@pytest.mark.parametrize(("means", "rank"), [((0.3, 0.1 + 0.2), 1), ((0.1 + 0.2, 0.3), 1), ((0.3, math.nan), 2)])
def test_ranks_are_those_of_the_leaderboard(
    make_lab: Make, tmp_path: Path, means: tuple[float, float], rank: int
) -> None:
    """Means that differ in their last bit share a rank, and a run without a mean is last."""
    lab = make_lab()
    for seed in (1, 2):
        submit_run(lab, Offer(run_file(tmp_path / str(seed), seed), "AB"[seed - 1]))
    found = [
        replace(each, means={**each.means, "nDCG": mean}) for each, mean in zip(submissions(lab), means, strict=True)
    ]
    assert standing(lab, found[1], scores_of(lab, found[1]), lab.task(), found).rank == rank


def test_the_rank_of_each_run_is_that_of_the_leaderboard_with_it_as_primary(make_lab: Make, tmp_path: Path) -> None:
    """Whatever run its team chose: post-hoc runs of others do not count, nor do further runs of the same team."""
    lab = make_lab()
    given = [("A", "automatic"), ("A", "automatic"), ("B", "automatic"), ("B", "post-hoc"), ("C", "automatic")]
    for seed, (team, kind) in enumerate(given):
        path = run_file(tmp_path / str(seed), seed)
        told = submit_run(lab, Offer(path, team, f"r{seed}", kind=kind)).standing
        if kind == "post-hoc":
            continue
        choose_primary(lab, team, f"r{seed}")
        ranked = [each for each in submissions(lab) if each.primary]
        mine = next(each for each in ranked if each.label == f"r{seed}")
        above = sum(each.means["nDCG"] > mine.means["nDCG"] for each in ranked)
        assert told is not None
        assert (told.rank, told.runs) == (1 + above, len(ranked))


@pytest.mark.parametrize("seeds", [(1, 2, 3, 4), (4, 3, 2, 1)])
def test_a_baseline_that_is_no_primary_run_is_ranked(make_lab: Make, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    """Leaderboards rank it beside its team's primary run, also if it is post-hoc."""
    lab = make_lab(baseline="A / base")
    given = [("A", "first", "automatic"), ("A", "base", "post-hoc"), ("B", "b", "automatic"), ("A", "third", "manual")]
    told = []
    for seed, (team, label, kind) in zip(seeds, given, strict=True):
        found = submit_run(lab, Offer(run_file(tmp_path / label, seed), team, label, kind=kind))
        told.append((found.standing, team_receipt(lab, found).ranked))
    means = {each.label: each.means["nDCG"] for each in submissions(lab)}
    beside = {"first": (), "base": ("first",), "b": ("first", "base"), "third": ("base", "b")}
    for (_, label, _), (found_standing, words) in zip(given, told, strict=True):
        assert found_standing is not None
        above = sum(means[other] > means[label] for other in beside[label])
        assert (found_standing.rank, found_standing.runs) == (1 + above, 1 + len(beside[label]))
        assert found_standing.ranked == (label != "third") == words.startswith("rank ")


def test_a_lab_that_changed_takes_no_run(make_lab: Make, conf: Conf, tmp_path: Path) -> None:
    lab = make_lab()
    submit_run(lab, Offer(run_file(tmp_path / "1", 1), "A", "a"))
    collection(conf, tmp_path / "data", judgments(seed=2))
    before = files(lab.folder)
    with pytest.raises(HarnessError, match="lab: judgments changed since the first submission"):
        submit_run(lab, Offer(run_file(tmp_path / "2", 2), "A", "b"))
    with pytest.raises(HarnessError, match="lab: judgments and measures changed since"):
        submit_run(replace(lab, measures=("AP",)), Offer(run_file(tmp_path / "2", 2), "A", "b"))
    assert files(lab.folder) == before
    expected = ["the run now has other scores; check whether the collection changed"]
    assert [line.rpartition(": ")[2] for line in lab_faults(lab)] == expected


@pytest.mark.slow
def test_a_submission_reads_no_other_runs(make_lab: Make, tmp_path: Path) -> None:
    """Nor their scores, but those that it is compared with: 30 teams' files may all be gone."""
    lab = make_lab()
    bench = lab.task()
    for seed in range(12):
        submit_run(lab, Offer(run_file(tmp_path / "r", seed), f"team{seed}"), bench=bench)
    found = submissions(lab)
    best = max(found, key=lambda each: each.means["nDCG"])
    for each in found:
        if each.place not in (0, best.place):
            for path in each.run.parent.iterdir():
                path.unlink()
    receipt = submit_run(lab, Offer(run_file(tmp_path / "r", 99), "late"), bench=bench)
    assert receipt.notes == ()
    assert receipt.standing is not None
    assert [row.name for row in receipt.standing.rows] == [best.title]


@pytest.mark.slow
def test_archives_and_folders_of_tira_are_submitted_like_their_run(conf: Conf, tmp_path: Path) -> None:
    """The lab gets the same bytes as from the run file with its metadata beside it."""
    collection(conf, tmp_path / "data", judgments())
    run, said = run_text(rankings(1)).encode(), b"platform: {software: {python: '3'}}\nresources: {ram: 1 GB}\nodd: 1\n"
    plain = placed(tmp_path / "plain", {"mine.run": run, "mine.ir-metadata.yml": said}) / "mine.run"
    inside = {"run.txt": run, "ir-metadata.yml": said}
    deep = {f"output/{name}": data for name, data in inside.items()}
    mac = {"__MACOSX/output/run.txt": b"\0\5\x16\7", "output/README.md": b"x"}
    packed = {"run.txt.gz": gzip.compress(run), "ir_metadata.yaml": said}
    offered = [
        zipped(tmp_path / "a.zip", inside),
        zipped(tmp_path / "b.zip", {**deep, **mac}),
        tarred(tmp_path / "c.tgz", deep),
        tarred(tmp_path / "d.tar.xz", packed, "w:xz"),
        placed(tmp_path / "e", inside),
        placed(tmp_path / "f", packed),
        placed(tmp_path / "g", deep),
        placed(tmp_path / "h", {"run.txt": run, "run.ir-metadata.yml": said}),  # as a lab keeps it
    ]
    expected = kept(tiny_lab(tmp_path / "lab"), plain)
    assert (
        b"python" in expected["mine.v1/run.ir-metadata.yml"] and b"odd" not in expected["mine.v1/run.ir-metadata.yml"]
    )
    for number, path in enumerate(offered):
        assert kept(tiny_lab(tmp_path / f"lab-{number}"), path) == expected
        based = open_lab(tmp_path / f"based-{number}", {"title": "B", "collection": "tiny"}, path)
        assert based.baseline == "baseline / mine"


def kept(lab: Lab, path: Path) -> dict[str, bytes]:
    """What a lab keeps of a run of team A."""
    assert submit_run(lab, Offer(path, "A"), now=datetime(2026, 1, 1, tzinfo=UTC)).notes == ()
    return files(lab.folder / "submissions" / "A")


def test_archives_that_are_refused_change_nothing(
    make_lab: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, run = make_lab(), run_text(rankings(1)).encode()
    monkeypatch.setattr(io_files, "SMALL", 1 << 16)
    bad = {
        "has x/run.txt and y/run.txt; expected one of them": {"x/run.txt": run, "y/run.txt": run},
        "is an archive of 2 files, expected one file, or one of them named run.txt or run.txt.gz": {"a": run, "b": run},
        "member '../run.txt' leads out of the archive's folder": {"../run.txt": run},
        "unpacks to more than 100 times its size": {"run.txt": run + b" " * (1 << 20)},
        "empty file, expected at least one line": {"run.txt": b""},
    }
    for said, inside in bad.items():
        for path in (zipped(tmp_path / "bad.zip", inside), tarred(tmp_path / "bad.tar.gz", inside)):
            with pytest.raises(HarnessError) as caught:
                submit_run(lab, Offer(path, "A"))
            assert caught.value.lines == (f"{path}: {said}",)
    assert not submissions(lab)


HOLLOW = b"platform: {a: [" + b"[]," * (1 << 18) + b"]}\n"


def test_metadata_in_an_archive_has_the_limits_of_that_beside_a_run(make_lab: Make, tmp_path: Path) -> None:
    lab, run = make_lab(), run_text(rankings(1)).encode()
    long = b"platform: {a: " + b"x" * (1 << 19) + b"}\n"
    path = zipped(tmp_path / "a.zip", {"run.txt": run, "ir-metadata.yml": long})
    assert submit_run(lab, Offer(path, "A")).notes == (f"{path}: platform: more than 262,144 characters; ignored",)
    hollow = zipped(tmp_path / "c.zip", {"run.txt": run_text(rankings(3)).encode(), "ir-metadata.yml": HOLLOW})
    (said,) = submit_run(lab, Offer(hollow, "C")).notes
    assert said == f"{hollow}: platform: more than 262,144 characters; ignored"  # brackets count, as they are written
    large = {"run.txt": run_text(rankings(2)).encode(), "ir-metadata.yml": b"# " + random.Random(1).randbytes(1 << 21)}
    huge = zipped(tmp_path / "b.zip", large)
    (note,) = submit_run(lab, Offer(huge, "B", "huge")).notes
    assert note == f"{huge}: unpacks to more than 2,097,152 bytes; ignored"
