"""What the doctor says of systems that lack something: those that tell it themselves too, and Anserini's once."""

from __future__ import annotations

import pytest

from harness.cli import doctor
from harness.formulas.mathml import latexml
from harness.systems.lexical import anserini
from harness.systems.mathamr.graphs import parsers


def test_systems_that_tell_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "missing", lambda: ["torch not installed: pip install x"])
    monkeypatch.setattr(anserini, "missing", lambda: ["Java is not there: make anserini"])
    monkeypatch.setattr(latexml, "missing", lambda: ["Perl is not there: install it"])
    monkeypatch.setattr(doctor, "reachable", lambda: False)
    rows = doctor.findings()
    assert ["system mathamr-dependency", "torch not installed", "pip install x"] in rows
    assert not [row for row in rows if row[0].startswith("system anserini")]
    monkeypatch.setattr(parsers, "missing", list)
    assert "system mathamr-dependency" not in {row[0] for row in doctor.findings()}
