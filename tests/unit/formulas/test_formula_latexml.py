"""LaTeXML's route: failures with a program in Perl's place that does as it is told, and the cache."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lexical_tools import message

from harness.cli import findings
from harness.formulas.mathml import latexml
from harness.formulas.mathml.latexml import Markup, convert, latexml_reader, missing, read_latexml
from harness.formulas.trees.tree import count, tangent_string
from harness.io.files import cache_root

# Stands in Perl's place: a formula is its own markup, but for those that say what is to happen to them.
FAKE = """#!{python} -SE
import json, os, pathlib, sys, time
if sys.argv[1] == "-MLaTeXML":
    print("{version}", end="")
    sys.exit({lacks})
work = json.load(sys.stdin)
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(work["latex"]) + "\\n")
{before}
print("ready", flush=True)
for number, latex in enumerate(work["latex"]):
    if latex == "die":
        os._exit(9)
    if latex == "hang":
        time.sleep(60)
    reason = latex.partition("!")[2]
    markup = "" if reason else "<math><mi>%s</mi></math>" % latex
    answer = [number, [markup, markup.replace("mi>", "ci>"), reason]]
    wrong = {{"shape": [number, ["a"]], "elsewhere": [number + 1, ["a", "b", ""]]}}
    print("{{[ no JSON" if latex == "garbage" else json.dumps(wrong.get(latex, answer)), flush=True)
"""
INSTALL = "apt-get install latexml"
Make = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A function that puts the program first in the path and gives the file that keeps what it was asked."""

    def make(*, version: str = "0.8.7", lacks: int = 0, before: str = "", name: str = "bin") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        calls = folder / "calls.jsonl"
        text = FAKE.format(python=sys.executable, version=version, lacks=lacks, before=before, calls=str(calls))
        (folder / "perl").write_text(text, encoding="utf-8")
        (folder / "perl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        calls.write_text("")
        return calls

    return make


def asked(calls: Path) -> list[list[str]]:
    return [json.loads(line) for line in calls.read_text().splitlines()]


def good(latex: str) -> Markup:
    return Markup(f"<math><mi>{latex}</mi></math>", f"<math><ci>{latex}</ci></math>")


NAMES = [f"x{number}" for number in range(40)]


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["die", "garbage", "shape", "elsewhere"])
@pytest.mark.parametrize("at", [0, 17])
def test_one_of_a_batch_breaks_the_process(fake: Make, bad: str, at: int) -> None:
    calls = fake()
    assert convert([*NAMES[:at], bad, *NAMES[at:]]) == [
        *map(good, NAMES[:at]),
        Markup("", "", "crash"),
        *map(good, NAMES[at:]),
    ]
    assert [bad] in asked(calls)  # it was tried alone


def test_all_break_the_process(fake: Make) -> None:
    fake()
    readings = [read_latexml(each, "opt") for each in convert(["die", "garbage", "shape"])]
    assert count(readings).failed == {"LaTeXML: crash": 3}
    assert [tangent_string(reading.tree) for reading in readings] == ["[E!]"] * 3


@pytest.mark.slow
def test_a_process_that_hangs_is_ended(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fake()
    monkeypatch.setattr(latexml, "START", 2)
    assert convert(["a", "hang", "b"], seconds=0) == [good("a"), Markup("", "", "timeout"), good("b")]


def test_two_at_the_same_time_share_the_cache_and_workers_the_formulas(fake: Make) -> None:
    calls = fake()
    latex = [f"x{number}" for number in range(150)]
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(convert, [latex, latex[::-1]]):
            assert set(found) == set(map(good, latex))
    before = len(asked(calls))
    assert convert(latex, workers=2) == list(map(good, latex))
    assert len(asked(calls)) == before
    assert convert([f"y{number}" for number in range(30)], workers=3) == [good(f"y{n}") for n in range(30)]
    assert sorted(len(batch) for batch in asked(calls)[before:]) == [10, 10, 10]


@pytest.mark.parametrize("damage", ["file", "row"])
def test_a_damaged_cache_is_refused(fake: Make, damage: str) -> None:
    fake()
    path = cache_root() / "latexml" / "formulas.sqlite"
    if damage == "file":
        path.parent.mkdir(parents=True)
        path.write_text("no database" * 100)
    else:
        convert(["a"])
        with sqlite3.connect(path) as database:
            database.execute("UPDATE formulas SET markup = '[1'")
    said = message(lambda: convert(["a"]))
    assert "formulas.sqlite: cannot be used: " in said
    assert "deleted" in said


@pytest.mark.parametrize(
    ("latex", "reason"),
    [
        ("", "no formula"),
        (" \n", "no formula"),
        ("{" * 201 + "}" * 201, "deeper than 200"),
        (r"\left(" * 201, "deeper than 200"),
        ("x" * 100_001, "longer than 100,000 characters"),
    ],
)
def test_refused_before_the_program_sees_it(fake: Make, latex: str, reason: str) -> None:
    calls = fake()
    assert convert([]) == []
    assert convert([latex, "a"]) == [Markup("", "", reason), good("a")]
    assert asked(calls) == [["a"]]


def test_program_that_does_not_start(fake: Make) -> None:
    fake(before="sys.exit('Cannot locate LaTeXML/Post.pm')")
    said = message(lambda: convert(["a"]))
    assert said == f"LaTeXML does not start: Cannot locate LaTeXML/Post.pm; install it with: {INSTALL}"


def test_missing_perl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == [f"LaTeXML is not installed: {INSTALL}"]
    assert message(lambda: convert(["a"])) == f"LaTeXML is not installed: {INSTALL}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lacks", "version", "row"),
    [(2, "", ["LaTeXML", "LaTeXML is not installed", INSTALL]), (0, "0.9.9", ["LaTeXML", "0.9.9", ""])],
)
def test_doctor_says_whether_perl_has_latexml(fake: Make, lacks: int, version: str, row: list[str]) -> None:
    fake(lacks=lacks, version=version)
    assert missing() == ([f"LaTeXML is not installed: {INSTALL}"] if lacks else [])
    assert [found for found in findings.findings() if found[0] == "LaTeXML"] == [row]


def test_reader_converts_once(fake: Make) -> None:
    calls = fake()
    tree = latexml_reader(iter(["x", "y", "x"]), "opt")
    assert [tangent_string(tree(each).tree) for each in ("y", "x")] == ["[V!y]", "[V!x]"]
    assert asked(calls) == [["x", "y"]]


RELATION = '<m:apply><m:eq/>{}<m:cn type="integer">0</m:cn></m:apply>'
CHAIN = RELATION.format("<m:ci>a</m:ci>") + RELATION.format('<m:share href="#p1"/>')
UNPARSED = "<math><apply><times/><ci>x</ci><cerror><ci>y</ci></cerror></apply></math>"


@pytest.mark.parametrize(
    ("kind", "markup", "reason", "tree", "said"),
    [
        # Signs and chains of relations as the official formulas have them.
        ("slt", "<math><mrow><mi>a</mi><mo>\u2212</mo><mi>b</mi></mrow></math>", "", "[V!a[-[V!b]]]", ""),
        ("opt", f"<m:math><m:apply><m:and/>{CHAIN}</m:apply></m:math>", "",
         "[U!and,0[U!eq,0[V!a],1[N!0]],1[U!eq,0[N!0]]]", ""),
        # A reason is LaTeXML's though there is markup; what it did not parse is a failure.
        ("slt", "<math><mi>x</mi></math>", "unexpected", "[V!x]", "LaTeXML: unexpected"),
        ("opt", UNPARSED, "", "[U!times,0[V!x],1[E!,0[V!y]]]", "LaTeXML: not parsed"),
    ],
)  # fmt: skip
def test_readings_of_markup(kind: str, markup: str, reason: str, tree: str, said: str) -> None:
    reading = read_latexml(Markup(markup, "", reason) if kind == "slt" else Markup("", markup, reason), kind)
    assert (tangent_string(reading.tree), reading.reason) == (tree, said)


@pytest.mark.usefixtures("at_once")
def test_who_waits_is_told(fake: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fake()
    monkeypatch.setattr(latexml, "BATCH", 2)
    convert(["a", "b", "c", "a"])
    said = capsys.readouterr()
    assert "LaTeXML, formulas: 2 of 3, " in said.err
    assert "LaTeXML, formulas: 3 of 3 in " in said.err
    assert said.out == ""
