"""Measures of one's own: registered in one file, or by the entry point of an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extension_tools import install
from scoring_tools import PLAIN, one, run_of

import harness
from harness.data.columns import Floats
from harness.data.trec import Qrels
from harness.errors import HarnessError
from harness.scoring import measures as m
from harness.scoring import spellings
from harness.scoring.measures import label, parse_measure, register
from harness.scoring.rankings import Judged, Measure, Ranked
from harness.scoring.scorer import Scorer


def expected_reciprocal_rank(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """A document of gain g satisfies with probability g / 4; the mean of 1 / rank of the one that does."""
    values, going_on, head = np.zeros(ranked.topics), np.ones(ranked.topics), ranked.head(k)
    for topic, rank, gain in zip(ranked.topic[head], ranked.rank[head], ranked.gain[head], strict=True):
        values[topic] += going_on[topic] * gain / 4 / (rank + 1)
        going_on[topic] *= 1 - gain / 4
    return values


ERR = Measure("ERR", expected_reciprocal_rank, graded=True, tie_bounds=True, mean="mean ERR")


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m, "MEASURES", dict(m.MEASURES))
    monkeypatch.setattr(spellings, "NAMES", dict(spellings.NAMES))


def test_a_measure_of_ones_own() -> None:
    """Before that of ir_measures, with cut, label, tie bounds, prime, and topics left out, as ours."""
    register(ERR)
    how = replace(PLAIN, measures=("ERR@2", "ERR"), prime=True, no_relevant="skip")
    found = one("a:4 x:3 b:2 c:1", {"a": 2, "b": 0, "c": 4}, how)
    assert found.values.tolist() == [[2 / 4, pytest.approx(2 / 4 + 2 / 4 * 4 / 4 / 3)]]  # x is not judged
    assert label("ERR@2", prime=True) == "mean ERR′@2"
    assert np.isnan(one("a:1", {"a": 0}, how).values).all()
    scorer = Scorer(Qrels.from_dict("e", {"t": {"a": 1, "b": 4}}), how)
    run = run_of({"t": [("a", 1.0), ("b", 1.0)]})
    assert scorer.tie_spans(run, scorer(run)) == dict.fromkeys(how.measures, (1 / 4 + 3 / 4 / 2, 1.0))


def test_a_measure_says_its_other_names() -> None:
    register(replace(ERR, names=("expected_rr",)))
    assert [str(parse_measure(text)) for text in ("expected_rr_10", "Expected_RR@5", "ERR")] == [
        "ERR@10",
        "ERR@5",
        "ERR",
    ]


def test_names_that_cannot_be_registered() -> None:
    register(ERR)
    register(replace(ERR, mean=""))  # the same function once more, as when a cell of a notebook runs again
    assert label("ERR", prime=False) == "ERR"

    def another(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
        return np.zeros(ranked.topics)

    for name, owner in (("AP", "harness.scoring.measures.average_precision"), ("ERR", f"{__name__}.expected_recip")):
        with pytest.raises(HarnessError, match=f"^measure '{name}' is that of {owner}.*; choose another name$"):
            register(Measure(name, another))
    for measure in (Measure("a b", another), Measure("", another), Measure("1st", another), Measure("A", another, k=5)):
        with pytest.raises(HarnessError, match=r"expected a name of letters, digits and '_', without a cut$"):
            register(measure)
    assert m.MEASURES["AP"].function is m.average_precision


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda ranked, judged, k: np.zeros(7), r"measure Odd@3: values of shape \(7,\), expected \(1,\)"),
        (lambda ranked, judged, k: 1 / 0, "measure Odd@3: ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_fails_is_named(function: object, message: str) -> None:
    register(Measure("Odd", function))  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match=f"^{message}"):
        one("a:1", {"a": 1}, replace(PLAIN, measures=("Odd@3",)))


# Installed packages.

HERE = "their-measures 0.1: entry point mathir_harness.measures: more"
MODULE = """
import numpy as np
from harness.scoring.measures import Measure, register

def found(ranked, judged, k):
    return np.minimum(ranked.total(ranked.relevant, k), 1.0)

def add():
    register(Measure({name!r}, found))
"""


def ask(tmp_path: Path, measure: str, module: str, value: str) -> subprocess.CompletedProcess[str]:
    """A package that names `value` as its entry point is installed, and `measure` scored."""
    install(tmp_path, "their-measures", {"measures": {"more": value}}, {"theirs.py": module})
    (tmp_path / "a.run").write_text("t Q0 a 1 1 mine\n")
    (tmp_path / "a.qrels").write_text("t 0 a 1\n")
    paths = os.pathsep.join((str(tmp_path), str(Path(harness.__file__).parents[1])))
    command = [sys.executable, "-m", "harness", "score", "a.run", "--qrels", "a.qrels", "--measures", measure]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": paths}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["theirs:add", "theirs"])
def test_an_installed_package_adds_measures(tmp_path: Path, value: str) -> None:
    text = MODULE.format(name="Found") + ("add()\n" if value == "theirs" else "")
    done = ask(tmp_path, "Found@5", text, value)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["run   Found@5  n  missing", "mine   1.0000  1        0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "value", "what"),
    [
        (
            MODULE.format(name="AP"),
            "theirs:add",
            "measure 'AP' is that of harness.scoring.measures.average_precision; choose another name",
        ),
        ("1 / 0", "theirs", f"{HERE}: ZeroDivisionError: division by zero (PLACE, line 1)"),
        ("def add():\n    {}['a']", "theirs:add", f"{HERE}: KeyError: 'a' (PLACE, line 2)"),
        ("", "theirs:nothing", f"{HERE}: theirs has no 'nothing'"),
        ("", "elsewhere", f"{HERE}: module 'elsewhere' is not installed"),
    ],
)
def test_a_broken_package_is_one_line_and_only_for_who_needs_it(
    tmp_path: Path, module: str, value: str, what: str
) -> None:
    done = ask(tmp_path, "Found@5", module, value)
    assert (done.returncode, done.stderr) == (2, f"harness: {what.replace('PLACE', str(tmp_path / 'theirs.py'))}\n")


@pytest.mark.slow
def test_a_broken_package_does_not_matter_to_measures_that_are_known(tmp_path: Path) -> None:
    done = ask(tmp_path, "AP,P@1", "1 / 0", "theirs")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_example_of_register_holds() -> None:
    import doctest

    assert doctest.testmod(m).failed == 0
    with pytest.raises(HarnessError):
        parse_measure("MyERR")


def spoils(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    ranked.gain[:] = 0
    return np.zeros(ranked.topics)


def ends(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (spoils, "measure Mine: ValueError: assignment destination is read-only"),
        (ends, "measure Mine: SystemExit: 0"),
        (lambda ranked, *_: np.full(ranked.topics, np.inf), "measure Mine: gave a value that is infinite or complex"),
        (lambda ranked, *_: np.full(ranked.topics, 1j), "measure Mine: gave a value that is infinite or complex"),
        (lambda ranked, *_: ["high"] * ranked.topics, "measure Mine: values are not numbers"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_measure_spoils_no_other_one_and_gives_numbers(function: Any, said: str) -> None:  # noqa: ANN401
    register(Measure("Mine", function, graded=True))
    with pytest.raises(HarnessError, match=said):
        one("a:2 b:1", {"a": 2, "b": 1}, replace(PLAIN, measures=("Mine", "nDCG")))
