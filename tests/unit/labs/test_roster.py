"""Rosters: tokens, revoked ones, teams that look alike, pseudonyms; caps per day, for invalid files, and refunds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from case_tables import literals
from lab_tools import Make, enrol, files, run_file, token_of

from harness.cli import lab as commands
from harness.cli.leaderboard import leaderboard
from harness.errors import HarnessError
from harness.io.files import sha256
from harness.labs.acts import act
from harness.labs.journal import Refunded
from harness.labs.lab import read_lab
from harness.labs.names import mentions
from harness.labs.roster import add_team, public_names, real_names, revoke_team, team_of
from harness.labs.submissions import submissions
from harness.labs.submit import Offer, submit_run, withdraw_run

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_a_token_names_its_team(make_lab: Make) -> None:
    lab = make_lab()
    tokens = {team: add_team(lab, team)[1] for team in ("DPRL", "MIRMU")}
    assert {team_of(lab, f" {token}\n"): team for team, token in tokens.items()} == {"DPRL": "DPRL", "MIRMU": "MIRMU"}
    text = (lab.folder / "journal.jsonl").read_text()
    assert all(token not in text and sha256(token.encode()) in text for token in tokens.values())
    assert all(len(token) == 43 for token in tokens.values())  # 256 bits
    odd = ("\udcff", "\ud800", "x\0", f"\ufeff{tokens['DPRL']}", "x" * 10_000)
    for wrong in ("", "x", tokens["DPRL"][:-1], sha256(tokens["DPRL"].encode()), *odd):
        with pytest.raises(HarnessError, match="lab: the token is unknown or was revoked"):
            team_of(lab, wrong)


def test_revoked_tokens(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab()
    _, token = add_team(lab, "DPRL")
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), "DPRL"))
    revoke_team(lab, "DPRL", "left")
    with pytest.raises(HarnessError, match="the token is unknown or was revoked"):
        team_of(lab, token)
    before = files(lab.folder)
    with pytest.raises(HarnessError, match="team DPRL: its token was revoked; the organisers can add the team again"):
        submit_run(lab, Offer(run_file(tmp_path / "r", 2), "DPRL"))
    with pytest.raises(HarnessError, match="team 'DPRL': is not on the roster"):
        revoke_team(lab, "DPRL")
    assert files(lab.folder) == before
    assert [each.current for each in submissions(lab)] == [True]
    _, other = add_team(lab, "DPRL")
    assert other != token and team_of(lab, other) == "DPRL"
    assert submit_run(lab, Offer(run_file(tmp_path / "r", 2), "DPRL")).made == 2


@pytest.mark.parametrize(("name", "said"), literals("labs/roster_teams_that_are_not_added"))
def test_teams_that_are_not_added(make_lab: Make, name: str, said: str) -> None:
    lab = enrol(make_lab(), "DPRL")
    before = files(lab.folder)
    with pytest.raises(HarnessError) as caught:
        add_team(lab, name)
    assert caught.value.lines[0].startswith(said)
    assert files(lab.folder) == before


def test_who_acts(make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a roster a name is enough; with one, the token, or that the organiser says so."""
    lab, run = make_lab(), run_file(tmp_path / "r", 1)
    with pytest.raises(HarnessError, match=r"--team: is missing; .*lab has no roster, so name the team"):
        commands.submit(str(run), lab.folder)
    commands.submit(str(run), lab.folder, team="A")
    enrol(lab, "A", "B")
    other = run_file(tmp_path / "s", 2)
    for given, said in (
        ({"team": "A"}, "has a roster, so a team's name is not enough; set HARNESS_TOKEN to the team's token"),
        ({}, "has a roster; set HARNESS_TOKEN"),
        ({"token": "x"}, "the token is unknown or was revoked"),
        ({"token": token_of("B"), "team": "A"}, "--team A: the token is that of B; leave --team out"),
        ({"organiser": True}, "--organiser: for which team\\? add --team TEAM"),
        ({"organiser": True, "team": "C"}, "team 'C': is not on the roster; known: A, B"),
    ):
        with pytest.raises(HarnessError, match=said):
            commands.submit(str(other), lab.folder, **given)
    commands.submit(str(other), lab.folder, token=token_of("B"))
    commands.submit(str(run_file(tmp_path / "t", 3)), lab.folder, team="B", organiser=True, label="two")
    with pytest.raises(HarnessError, match="team B has no run 'mine2'"):
        commands.withdraw("mine2", lab.folder, token=token_of("B"))
    commands.withdraw("mine", lab.folder, token=token_of("B"))
    assert [(each.team, each.withdrawn) for each in submissions(lab)] == [("A", False), ("B", True), ("B", False)]
    assert token_of("B") not in "".join(capsys.readouterr())


def test_a_cap_per_day(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(cap=4, cap_per_day=2)
    bench = lab.task()

    def made(seed: int, now: datetime) -> int:
        return submit_run(lab, Offer(run_file(tmp_path / "r", seed), "A", f"l{seed}"), bench=bench, now=now).made

    assert [made(1, NOW), made(2, NOW)] == [1, 2]
    with pytest.raises(HarnessError, match=r"team A: has made 2 of 2 submissions of this day \(UTC\)"):
        made(3, NOW + timedelta(hours=11))
    assert made(3, NOW + timedelta(hours=12)) == 3  # midnight, UTC
    act(lab, Refunded, "A", "l3", reason="our mistake")
    assert made(4, NOW + timedelta(hours=12)) == 3
    withdraw_run(lab, "A", "l4")
    assert made(5, NOW + timedelta(hours=13)) == 4
    with pytest.raises(HarnessError) as caught:
        made(6, NOW + timedelta(hours=14))
    assert len(caught.value.lines) == 2  # the cap, and that of the day


def test_a_cap_for_invalid_files(make_lab: Make, tmp_path: Path) -> None:
    lab = enrol(make_lab(cap=9, invalid_cap=2), "A", "B")
    bad = tmp_path / "bad"
    bad.write_text("T.1 Q0 x 1 high mine\n")
    for _ in range(2):
        with pytest.raises(HarnessError, match="score 'high' is not a finite number"):
            submit_run(lab, Offer(bad, "A"), now=NOW)
    before = files(lab.folder)
    for path in (bad, run_file(tmp_path / "r", 1)):
        with pytest.raises(HarnessError, match="team A: has sent 2 of 2 invalid files; ask the organisers"):
            submit_run(lab, Offer(path, "A"), now=NOW)
    with pytest.raises(HarnessError, match="gone: no such file"):
        submit_run(lab, Offer(tmp_path / "gone", "B"), now=NOW)
    for stranger in ("C", "../x", ""):  # whose files are not counted
        with pytest.raises(HarnessError):
            submit_run(lab, Offer(bad, stranger), now=NOW)
    assert files(lab.folder) == before
    assert submit_run(lab, Offer(run_file(tmp_path / "r", 1), "B"), now=NOW).made == 1  # nor towards the other cap
    rows = [json.loads(line) for line in (lab.folder / "journal.jsonl").read_text().splitlines()]
    assert [row["team"] for row in rows if row["event"] == "refused"] == ["A", "A"]


@pytest.mark.parametrize(("text", "name", "found"), literals("labs/roster_names_in_texts"))
def test_names_in_texts(text: str, name: str, found: bool) -> None:
    assert mentions(text, name) is found


def test_a_label_does_not_tell_the_name_behind_a_pseudonym(make_lab: Make, tmp_path: Path) -> None:
    lab = make_lab(pseudonyms_until="2026-09-01T00:00:00Z")
    name, _ = add_team(lab, "DPRL", now=NOW)
    path = run_file(tmp_path / "r", 1, "dprl_task1")
    with pytest.raises(HarnessError, match="label 'dprl_task1': names the team, which has a pseudonym"):
        submit_run(lab, Offer(path, name), now=NOW)
    assert submissions(lab) == ()
    assert submit_run(lab, Offer(path, name, "task1"), now=NOW).made == 1
    later = datetime(2026, 9, 2, tzinfo=UTC)
    assert submit_run(lab, Offer(run_file(tmp_path / "r", 2, "dprl_2"), name), now=later).made == 2


def test_a_team_is_known_by_its_pseudonym_and_its_name(make_lab: Make, tmp_path: Path) -> None:
    """A second pseudonym would give the team a second cap."""
    lab = make_lab(pseudonyms_until="2026-09-01T00:00:00Z")
    name, _ = add_team(lab, "DPRL", now=NOW)
    revoke_team(lab, name)
    assert add_team(lab, name, now=NOW)[0] == name
    revoke_team(lab, "DPRL")
    assert add_team(lab, "DPRL", now=datetime(2026, 10, 1, tzinfo=UTC))[0] == name
    assert real_names(lab) == {name: "DPRL"}
    commands.submit(str(run_file(tmp_path / "r", 1)), lab.folder, team="DPRL", organiser=True)
    assert act(lab, Refunded, "DPRL", "mine").team == name
    with pytest.raises(HarnessError) as caught:
        add_team(lab, name)
    assert caught.value.lines == (f"team {name}: is on the roster; revoke its token before you issue another",)


def test_a_team_that_is_in_the_lab_gets_no_pseudonym(make_lab: Make) -> None:
    """It would have a second name, and a second cap."""
    lab = enrol(make_lab(pseudonyms_until="2026-09-01T00:00:00Z"), "DPRL")
    revoke_team(lab, "DPRL")
    assert add_team(lab, "DPRL", now=NOW)[0] == "DPRL"
    assert real_names(lab) == {}


def test_a_team_whose_pseudonym_was_written_and_whose_token_was_not(make_lab: Make) -> None:
    """The command was killed in between."""
    lab = make_lab(pseudonyms_until="2026-09-01T00:00:00Z")
    before = (lab.folder / "journal.jsonl").read_bytes()
    name, _ = add_team(lab, "DPRL", now=NOW)
    (lab.folder / "journal.jsonl").write_bytes(before)
    again, token = add_team(lab, "DPRL", now=NOW)
    assert (again, team_of(lab, token), real_names(lab)) == (name, name, {name: "DPRL"})


def test_pseudonyms(make_lab: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make_lab(pseudonyms_until="2026-09-01T00:00:00Z")
    name, token = add_team(lab, "DPRL", now=NOW)
    assert name.startswith("team-") and team_of(lab, token) == name
    assert real_names(lab) == {name: "DPRL"}
    with pytest.raises(HarnessError, match="team DPRL: is on the roster"):
        add_team(lab, "DPRL", now=NOW)
    with pytest.raises(HarnessError, match="team 'dprl': resembles the existing team 'DPRL'"):
        add_team(lab, "dprl", now=NOW)
    revoke_team(lab, name)
    assert add_team(lab, "DPRL", now=NOW)[0] == name  # a new token, the same pseudonym
    submit_run(lab, Offer(run_file(tmp_path / "r", 1), name, "one"), now=NOW)
    assert all(b"DPRL" not in content for content in files(lab.folder, "private").values())
    assert (lab.folder / "private").stat().st_mode & 0o077 == 0
    assert public_names(lab, NOW) == {}
    assert public_names(lab, datetime(2026, 9, 1, tzinfo=UTC)) == {name: "DPRL"}
    path = lab.folder / "lab.yaml"
    path.write_text(f"{path.read_text()}baseline: {name} / one\n")
    for year, shown in (("2099", f"{name} / one (baseline)"), ("2020", "DPRL / one (baseline)")):
        path.write_text(path.read_text().replace("2026-09", f"{year}-09").replace("2099-09", f"{year}-09"))
        leaderboard(places=[str(lab.folder)], formats="json", resamples=10)
        assert shown in capsys.readouterr().out
    (lab.folder / "private" / ".names.json").write_text("[]")
    with pytest.raises(HarnessError, match=r"\.names\.json: damaged: expected pseudonyms and names"):
        real_names(read_lab(lab.folder))
