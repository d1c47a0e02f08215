"""The file schemas of labs: journals, leaderboards and means of private submissions fit them, damaged ones do not."""

from __future__ import annotations

import copy
import json
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lab_tools import Conf, collection, judgments, rankings, run_file, tiny_lab
from referencing import Registry, Resource

import harness
import harness as h
from harness.errors import HarnessError
from harness.labs import acts, board, closing, journal
from harness.labs.board import Leaderboard, leaderboard_to_json
from harness.labs.journal import Appealed, Disqualified, Refunded, Reinstated
from harness.labs.lab import Lab
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, floor, leaderboard
from harness.labs.roster import add_team, revoke_team
from harness.labs.submit import Offer, choose_primary, submit_run, withdraw_run

Json = dict[str, Any]
FOLDER = Path(harness.__file__).parent / "data" / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
EVENTS = {each.event: each for each in typing.get_args(journal.Event)}
REGISTRY = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in SCHEMAS.values())


def fits(name: str, document: object) -> bool:
    return jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY).is_valid(document)


def documents(lab: Lab) -> list[tuple[str, Json]]:
    """Everything that a lab with some events wrote as JSON, and the name of its schema."""
    for seed, team, label in ((1, "A", "a"), (2, "A", "b"), (3, "B", "a"), (4, "B", "a")):
        run = run_file(lab.folder.parent / f"{seed}.run", seed)
        submit_run(lab, Offer(run, team, label, description="made for this test"))
    withdraw_run(lab, "B", "a", reason="another was meant")
    for act in (Refunded, Disqualified, Appealed, Reinstated):
        acts.act(lab, act, "A", "a", reason="for this test")
    add_team(lab, "C")
    revoke_team(lab, "C")
    broken = lab.folder.parent / "broken.run"
    broken.write_text("no run\n")
    with pytest.raises(HarnessError):
        submit_run(lab, Offer(broken, "A"))
    choose_primary(lab, "A", "b")
    closing.extend(lab, datetime(2099, 1, 1, tzinfo=UTC), "for this test")
    closing.freeze(lab, "for this test")
    closing.reopen(lab, "for this test")
    lines = (lab.folder / "journal.jsonl").read_text().splitlines()
    means = sorted(lab.folder.rglob("means.json"))
    assert len(means) == (4 if lab.private else 0)
    return [("journal", json.loads(line)) for line in lines] + [
        ("submission", json.loads(path.read_text())) for path in means
    ]


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_files_of_a_lab_fit_their_schemas(conf: Conf, tmp_path: Path, private: bool) -> None:
    collection(conf, tmp_path / "data", judgments(), private=private)
    settings = {"cap": 3, "held_out": True, "invalid_cap": 5} if private else {}
    lab = tiny_lab(tmp_path / "lab", **settings)
    found = documents(lab)
    if private:
        acts.reveal(lab, now=datetime(2100, 1, 1, tzinfo=UTC))
        acts.rejudge(lab, tmp_path / "again", "test")
        rows = (lab.folder / "journal.jsonl").read_text().splitlines()[-2:]
        found += [("journal", json.loads(row)) for row in rows]
    missing = set() if private else {"committed", "revealed", "refused", "rejudged"}
    assert {document["event"] for name, document in found if name == "journal"} == EVENTS.keys() - missing
    for name, document in found:
        assert fits(name, document), document
        for key in document.keys() - {"held_out"}:  # which earlier versions did not write
            assert not fits(name, {other: value for other, value in document.items() if other != key}), key
            assert not fits(name, {**document, key: {"another": []}}), key
        assert not fits(name, {**document, "surplus": 1})
    one = next(document for name, document in found if name == "journal" and document["event"] == "submitted")
    for change in ({"team": "a/b"}, {"version": 0}, {"kind": "auto"}, {"sha256": "0A" * 32}, {"check": "0"}):
        assert not fits("journal", {**one, **change}), change


def boards(tmp_path: Path, conf: Conf) -> dict[str, Leaderboard]:
    collection(conf, tmp_path / "data", judgments())
    task = h.task("tiny")
    scored = [{t: {d: 9.0 - k // 2 for k, d in enumerate(docs)} for t, docs in rankings(n).items()} for n in range(4)]
    runs = [h.Run.from_dict(f"r{n}", each) for n, each in enumerate(scored)]
    evaluation = h.evaluate(task, *runs)
    entries = [
        LeaderboardEntry(scores.run, scores, bounds=evaluation.bounds.get(scores.run)) for scores in evaluation.scores
    ]
    entries[3] = replace(entries[3], kind="post-hoc", primary=False)
    how = LeaderboardSettings(floor=floor(task, 2))
    private = leaderboard(entries, LeaderboardSettings(private=True))
    return {"letters": leaderboard(entries, how), "one run": leaderboard(entries[:1]), "private": private}


@pytest.mark.slow
def test_leaderboards_fit_their_schema(conf: Conf, tmp_path: Path) -> None:
    for name, made in boards(tmp_path, conf).items():
        document = json.loads(json.dumps(leaderboard_to_json(made), allow_nan=False))
        assert fits("leaderboard", document), name
        places: tuple[Callable[[Json], Json], ...] = (
            lambda whole: whole,
            lambda whole: whole["ranked"][0],
            lambda whole: whole["ranked"][0]["means"][0],
        )
        for place in places:
            for key in place(document):
                changed = copy.deepcopy(document)
                del place(changed)[key]
                assert fits("leaderboard", changed) == (key == "undefined"), key  # a key of later versions
                changed = copy.deepcopy(document)
                place(changed)[key] = {"another": []}
                assert not fits("leaderboard", changed), key
            changed = copy.deepcopy(document)
            place(changed)["surplus"] = 1
            assert not fits("leaderboard", changed)


def test_schemas_have_the_fields_of_the_values() -> None:
    def names(kind: type) -> set[str]:
        assert is_dataclass(kind)
        return {field.name for field in fields(kind)}

    loaded = SCHEMAS["leaderboard"]
    expected = (board.SCHEMA, board.VERSION)
    assert (loaded["properties"]["schema"]["const"], loaded["properties"]["version"]["const"]) == expected
    assert loaded["properties"].keys() == {"schema", "version"} | names(Leaderboard)
    kinds = {each.__name__.lower(): each for each in (board.Mean, board.Judgments, board.Ties, board.Detectable)}
    for name, kind in {**kinds, "standing": board.LeaderboardRow}.items():
        assert loaded["$defs"][name]["properties"].keys() == names(kind)
    for name, event in EVENTS.items():
        assert SCHEMAS["journal"]["$defs"][name]["properties"].keys() == names(event) | {"check", "event"}
