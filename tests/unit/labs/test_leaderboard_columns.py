"""A column declared from outside is in every form of a leaderboard; of private judgments, no form has a private one."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab_tools import Conf, collection, judgments, tiny_lab
from site_tools import build, sent
from typer.testing import CliRunner

from harness.cli.main import app
from harness.labs import board
from harness.labs.board import BoardColumn
from harness.labs.server.page_drawing import leaders
from harness.labs.server.service import Service

FORMS = {"command": 35, "report": 35, "site": 35, "server": 35, "data": 35}
NAMES = ("letters of the name", "secret letters")


@pytest.mark.parametrize("private", [False, True])
def test_a_column_from_outside_is_everywhere_and_a_private_one_only_where_judgments_are_public(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    added = [
        BoardColumn(name, lambda run: 700 + len(run.name), secret, FORMS)
        for name, secret in zip(NAMES, (False, True), strict=True)
    ]
    monkeypatch.setattr(board, "COLUMNS", [*board.COLUMNS, *added])
    collection(conf, tmp_path / "data", judgments(1), private=private)
    lab = tiny_lab(tmp_path / "lab", **({"cap": 3} if private else {}))
    sent(lab, 1, "DPRL", "one")
    shown = CliRunner().invoke(app, ["leaderboard", str(lab.folder), "--quiet"], env={"COLUMNS": "300"}).stdout
    assert build(lab.folder, "-o", tmp_path / "site", "--quiet")[0] == 0
    page = tmp_path / "site" / "lab"
    document: dict[str, Any] = json.loads((page / "leaderboard.json").read_text())
    (home, row) = leaders(cast(Service, SimpleNamespace(state=tmp_path, base="lab")), lab)
    for name in NAMES:
        expected = not (private and name == NAMES[1])
        assert (name in shown) == expected
        assert (name in (lab.folder / "leaderboard/index.html").read_text()) == expected
        assert (name in (lab.folder / "leaderboard/report.json").read_text()) == expected
        assert (name in (page / "index.html").read_text()) == expected
        assert (name in home) == expected
        assert (document["ranked"][0].get(name) == 700 + len("DPRL / one")) == expected
        assert (name in next(csv.reader((page / "leaderboard.csv").open()))) == expected
        if expected:
            assert row[home.index(name)] == str(700 + len("DPRL / one"))
    assert board.leaderboard_from_json(document).ranked[0].name == "DPRL / one"
