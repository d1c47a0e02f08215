"""What the doctor says of systems that lack something: those that tell it themselves too, and Anserini's once."""

from __future__ import annotations

import re

import pytest

from harness.cli import findings
from harness.formulas.mathml import latexml
from harness.systems.lexical import runtime
from harness.systems.mathamr.graphs import parsers


@pytest.mark.slow
def test_systems_that_tell_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "missing", lambda mapping=None: ["torch not installed: pip install x"])
    monkeypatch.setattr(runtime, "missing", lambda: ["Java is not there: make anserini"])
    monkeypatch.setattr(latexml, "missing", lambda: ["Perl is not there: install it"])
    monkeypatch.setattr(findings, "reachable", lambda: False)
    rows = findings.findings()
    (of_parsers,) = [row for row in rows if row[1:] == ["torch not installed", "pip install x"]]  # one for all systems
    assert re.fullmatch(r"system \S+ and \d+ more", of_parsers[0])
    assert not [row for row in rows if row[0].startswith("system anserini")]
    monkeypatch.setattr(parsers, "missing", lambda mapping=None: [])
    assert "torch not installed" not in {row[1] for row in findings.findings()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("http://[::1]:1", "[::1]:1 does not answer"),
        ("http://name:secret@127.0.0.1:none", "127.0.0.1:none does not answer"),
        ("", "forbidden by HARNESS_OFFLINE"),
    ],
)
def test_the_network_is_named(base: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RAW_BASE", base)
    monkeypatch.setenv("HARNESS_OFFLINE", "" if base else "1")
    monkeypatch.setenv("no_proxy", "*")
    assert ["network", said] in [row[:2] for row in findings.findings()]
