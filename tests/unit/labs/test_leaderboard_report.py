"""What the report of leaderboards says, table by table, and what it leaves out."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.labs.board import Leaderboard, leaderboard_from_json
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, leaderboards
from harness.labs.leaderboard_report import incomplete, leaderboard_headline, leaderboard_report, reading
from harness.render.model import Figure, Table
from harness.render.write import FORMATS, Report
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores
from harness.store.provenance import Provenance

HOW = Protocol("plain", ("AP", "P@10", "Judged@10", "Judged@1000"), prime=True, ties="file")
NAMES = ("anna / one", "ben / <b>two|", "cleo / t$hree_")
TOPICS = tuple(f"SECRET.{n}" for n in range(10))


def entries(edition: str, seed: int) -> list[LeaderboardEntry]:
    chance = np.random.default_rng(seed)
    topic = chance.random((len(TOPICS), 1))
    out = []
    for at, name in enumerate(NAMES):
        values = np.clip(0.5 * topic + 0.2 * at + 0.05 * chance.random((len(TOPICS), 4)), 0, 1)
        tied, missing = {"tied results": 5 * at}, TOPICS[: 2 * at]
        found = Scores("x", "c", edition, HOW, HOW.measures, TOPICS, values, "0a" * 32, "", tied, missing)
        out.append(LeaderboardEntry(name, found, kind="automatic", bounds={"AP": (0.3, 0.9)} if at else {}))
    return out


def page(boards: tuple[Leaderboard, ...]) -> Report:
    return leaderboard_report(boards, Provenance("harness leaderboard", {}, "here"), remarks=("Grades are guesses.",))


def table(report: Report, name: str) -> Table:
    return next(found for found in report.tables() if found.id == name)


def texts(found: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in found.rows]


def test_the_best_mean_is_marked_where_there_is_another() -> None:
    for count, marked in ((3, [NAMES[2]]), (1, [])):
        rows = table(page(leaderboards(entries("e", 1)[:count])), "leaderboard").rows
        assert [row[0].text for row in rows if any("best" in cell.marks for cell in row)] == marked


def test_runs_without_a_rank_have_a_table_of_their_own_with_the_floor() -> None:
    given = [replace(each, primary=False, kind="post-hoc") for each in entries("e", 1)]
    (board,) = leaderboards(given, LeaderboardSettings(floor=[entries("e", 1)[0].scores]))
    report = page((board,))
    assert next(found.id for found in report.tables()) == "others"
    assert [row[0] for row in texts(table(report, "others"))] == [*NAMES[::-1], "random floor"]
    assert not [found for found in report.tables() if found.id == "leaderboard"]
    assert any("a mean below the floor is normal for runs with few judged" in sentence for sentence in reading(board))


def test_one_leaderboard() -> None:
    (board,) = leaderboards(entries("e", 1), LeaderboardSettings(baseline=NAMES[0], floor=[entries("e", 1)[0].scores]))
    report = page((board,))
    shown = texts(table(report, "leaderboard"))
    assert [row[0] for row in shown] == [*NAMES[::-1], "random floor"]
    assert [row[1:5] for row in shown] == [
        ["1", "automatic", "a", "1"],
        ["2", "automatic", "b", "2"],
        ["3", "automatic", "c", "3"],
        ["", "", "", ""],
    ]
    mean = board.ranked[0].means[0]
    assert mean.value is not None
    assert mean.low is not None
    assert shown[0][5] == f"{mean.value:.4f} ± {mean.value - mean.low:.4f}"
    assert [row[-2:] for row in shown[:3]] == [["10", "4"], ["10", "2"], ["10", "0"]]
    assert table(report, "leaderboard").rows[2][0].marks == ("baseline",)
    assert report.headline == (
        f"3 runs on c (edition e, 10 topics, protocol plain): best MAP′ {mean.value:.4f} by {NAMES[2]}, "
        "which differs significantly from all others"
    )
    assert texts(table(report, "judged"))[0][0] == NAMES[2]
    titles = ["run", "Judged@10", "unjudged@10", "expected bias of P@10", "Judged@1000"]
    assert [column.title for column in table(report, "judged").columns] == titles
    expected = [[NAMES[2], "1", "10", "0.3000 to 0.9000"], [NAMES[1], "2", "5", "0.3000 to 0.9000"]]
    assert [row[:4] for row in texts(table(report, "ties"))] == expected
    said = " ".join(reading(board))
    for words in ("alpha 0.05, Holm's correction over a family of 3 tests", "1,000 bootstrap resamples", "0.05 / 3"):
        assert words in said
    assert re.search(r"at alpha 0\.05 / 3: \d\.\d{3} \(median over the pairs tested, from ", said)
    (two,) = leaderboards(entries("e", 1)[:2])
    assert re.search(r"at alpha 0\.05: \d\.\d{3}\.", " ".join(reading(two)))  # one pair has no spread


@pytest.mark.parametrize("prime", [True, False])
def test_what_is_said_of_unjudged_results_is_of_the_protocol(tmp_path: Path, prime: bool) -> None:
    how = replace(HOW, prime=prime)
    given = [replace(each, scores=replace(each.scores, protocol=how)) for each in entries("e", 1)]
    said = page(leaderboards(given)).write(tmp_path, ["md"])["md"].read_text()
    assert ("removes unjudged results before scoring" in said) == prime


def test_editions_have_tables_of_their_own() -> None:
    boards = leaderboards([*entries("e", 1), *(replace(each, name=f"{each.name}2") for each in entries("f", 2))])
    report = page(boards)
    assert report.headline == "2 leaderboards, one for each edition and protocol"
    for number, edition in ((1, "e"), (2, "f")):
        found = table(report, f"leaderboard-{number}")
        assert found.notes == (f"c, edition {edition}, protocol plain.",)
        assert len(found.rows) == 3
        assert any(section.title == f"c, edition {edition}, protocol plain" for section in report.sections)


def test_alike_and_untested() -> None:
    same = [replace(each, scores=entries("e", 1)[0].scores) for each in entries("e", 1)]
    (board,) = leaderboards(same)
    assert leaderboard_headline(board).endswith(f"by {NAMES[0]}, which does not differ significantly from 2 others")
    (alone,) = leaderboards(same[:1])
    assert leaderboard_headline(alone).endswith(f"by {NAMES[0]}")
    assert "Nothing was tested: there is only one ranked run." in reading(alone)
    (many,) = leaderboards([replace(same[0], name=f"r{n}") for n in range(61)])
    assert "1,830 tests: all pairs of ranked runs, of which only those with the" in " ".join(reading(many))


def test_the_best_run_may_have_several_letters() -> None:
    """Two runs that differ from each other, but neither from the best, share different letters with it."""
    (board,) = leaderboards(entries("x", 0))
    ranked = tuple(replace(each, group=group) for each, group in zip(board.ranked, ("ab", "a", "b"), strict=True))
    board = replace(board, ranked=ranked, grouping="letters")
    assert leaderboard_headline(board).endswith("which does not differ significantly from 2 others")
    (figure,) = (block for section in page((board,)).sections for block in section.blocks if isinstance(block, Figure))
    assert figure.svg.count('Z" class="f1"') == 3


def test_all_formats_can_be_read_back(tmp_path: Path) -> None:
    boards = leaderboards([*entries("e", 1), *(replace(each, name=f"{each.name}2") for each in entries("f", 2))])
    written = page(boards).write(tmp_path, FORMATS)
    assert set(written) == set(FORMATS)
    data = json.loads(written["json"].read_text(encoding="utf-8"))["data"]
    assert tuple(leaderboard_from_json(each) for each in data["leaderboards"]) == boards
    rows = list(csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_text(encoding="utf-8"))))
    assert len(rows) == 2 * 3 * 2
    best, mean = boards[0].ranked[0], boards[0].ranked[0].means[0]
    assert rows[0]["run"] == best.name
    shown = [float(rows[0][key]) for key in ("rank", "rank_low", "n", "mean", "mean_low")]
    assert shown == [best.rank, best.rank_low, mean.n, mean.value, mean.low]
    html = written["html"].read_text(encoding="utf-8")
    assert "<b>two" not in html
    assert "ben / &lt;b&gt;two|" in html


@pytest.mark.parametrize("baseline", [None, NAMES[1]])
def test_of_private_judgments_nothing_is_told(tmp_path: Path, baseline: str | None) -> None:
    settings = LeaderboardSettings(
        baseline=baseline, private=True, decimals=2, privacy="The judgments are private: none is shown."
    )
    boards = leaderboards(entries("e", 1), settings)
    report = page(boards)
    assert {found.id for found in report.tables()} == {"leaderboard"}
    found = table(report, "leaderboard")
    assert [column.title for column in found.columns] == ["run", "rank", "kind", "group", "MAP′", "P′@10"]
    expected = {round(cell.value, 2) for row in found.rows for cell in row[4:] if cell.value is not None}
    assert {cell.value for row in found.rows for cell in row[4:]} == expected
    report.write(tmp_path)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    exact = [value for each in entries("e", 1) for value in each.scores.values.ravel().tolist()]
    exact += [each.scores.mean(name) for each in entries("e", 1) for name in HOW.measures]
    for word in ("SECRET", "0a0a0a0a", *(repr(value)[:8] for value in exact if value < 1)):
        assert word.encode() not in written
    assert b"The judgments are private" in written


def test_runs_that_do_not_answer_all_topics_are_named() -> None:
    """In the order of their ranks; of a private lab nothing is said, as the counts are not told."""
    (board,) = leaderboards(entries("e", 1), LeaderboardSettings())
    said = tuple(
        f"{name} answers {n} of 10 topics; unanswered topics count 0." for name, n in ((NAMES[2], 6), (NAMES[1], 8))
    )
    assert incomplete(board) == said
    assert all(sentence in page((board,)).sections[0].blocks[0].paragraphs for sentence in said)  # type: ignore[union-attr]
    answered = replace(board, protocol=replace(HOW, topics="answered"))
    assert "its means cover only these" in incomplete(answered)[0]
    many = replace(board, ranked=tuple(replace(board.ranked[0], name=f"r{n}") for n in range(7)))
    assert incomplete(many)[-1] == "2 more runs do not answer all topics: see the column 'topics missing'."
    (hidden,) = leaderboards(entries("e", 1), LeaderboardSettings(private=True, decimals=2))
    assert incomplete(hidden) == ()
