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

from harness.cli import findings
from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.formulas.mathml.latexml import Markup, convert, missing, read, reader
from harness.formulas.trees.reading import count
from harness.formulas.trees.tree import show
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
    if latex == "garbage":
        print("{{[ no JSON", flush=True)
        continue
    if latex == "shape":
        print(json.dumps([number, ["a"]]), flush=True)
        continue
    if latex == "elsewhere":
        print(json.dumps([number + 1, ["a", "b", ""]]), flush=True)
        continue
    reason = latex.partition("!")[2]
    markup = "" if reason else "<math><mi>%s</mi></math>" % latex
    print(json.dumps([number, [markup, markup.replace("mi>", "ci>"), reason]]), flush=True)
"""
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


def test_order_and_repeats(fake: Make) -> None:
    calls = fake()
    assert convert(["b", "a", "b"]) == [good("b"), good("a"), good("b")]
    assert asked(calls) == [["b", "a"]]


@pytest.mark.parametrize("bad", ["die", "garbage", "shape", "elsewhere"])
def test_one_of_a_batch_breaks_the_process(fake: Make, bad: str) -> None:
    calls = fake()
    latex = [f"x{number}" for number in range(40)]
    latex[17] = bad
    found = convert(latex)
    assert found[17] == Markup("", "", "crash")
    assert [each for number, each in enumerate(found) if number != 17] == [good(each) for each in latex if each != bad]
    assert [bad] in asked(calls)  # it was tried alone


def test_first_of_a_batch_breaks_the_process(fake: Make) -> None:
    fake()
    latex = ["die", *"abcdefg"]
    assert convert(latex) == [Markup("", "", "crash"), *map(good, "abcdefg")]


def test_all_break_the_process(fake: Make) -> None:
    fake()
    readings = [read(each, "opt") for each in convert(["die", "garbage", "shape"])]
    assert count(readings).failed == {"LaTeXML: crash": 3}
    assert [show(reading.tree) for reading in readings] == ["[E!]"] * 3


@pytest.mark.slow
def test_a_process_that_hangs_is_ended(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fake()
    monkeypatch.setattr(latexml, "START", 2)
    assert convert(["a", "hang", "b"], seconds=0) == [good("a"), Markup("", "", "timeout"), good("b")]


def test_errors_of_formulas_are_kept_and_counted(fake: Make) -> None:
    calls = fake()
    latex = [r"\foo!undefined", "x"]
    first = convert(latex)
    assert convert(latex) == first
    assert len(asked(calls)) == 1
    assert count(read(each, "slt") for each in first).failed == {"LaTeXML: undefined": 1}


def test_what_depends_on_the_moment_is_tried_again(fake: Make) -> None:
    calls = fake()
    convert(["a", "die"])
    before = len(asked(calls))
    convert(["a", "die"])
    assert asked(calls)[before:] == [["die"]]


def test_cache_is_of_one_version(fake: Make) -> None:
    fake()
    convert(["a"])
    calls = fake(version="0.8.8", name="newer")
    convert(["a"])
    assert asked(calls) == [["a"]]


def test_two_at_the_same_time_share_the_cache(fake: Make) -> None:
    calls = fake()
    latex = [f"x{number}" for number in range(150)]
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(convert, [latex, latex[::-1]]):
            assert set(found) == set(map(good, latex))
    before = len(asked(calls))
    assert convert(latex, workers=2) == list(map(good, latex))
    assert len(asked(calls)) == before


def test_workers_share_the_formulas(fake: Make) -> None:
    calls = fake()
    latex = [f"x{number}" for number in range(30)]
    assert convert(latex, workers=3) == list(map(good, latex))
    assert sorted(len(batch) for batch in asked(calls)) == [10, 10, 10]


def test_damaged_cache(fake: Make) -> None:
    fake()
    path = cache_root() / "latexml" / "formulas.sqlite"
    path.parent.mkdir(parents=True)
    path.write_text("no database" * 100)
    with pytest.raises(HarnessError, match=r"formulas\.sqlite: cannot be used: .*deleted"):
        convert(["a"])


def test_damaged_row_of_the_cache(fake: Make) -> None:
    fake()
    convert(["a"])
    with sqlite3.connect(cache_root() / "latexml" / "formulas.sqlite") as database:
        database.execute("UPDATE formulas SET markup = '[1'")
    with pytest.raises(HarnessError, match=r"formulas\.sqlite: cannot be used"):
        convert(["a"])


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
    assert convert([latex, "a"]) == [Markup("", "", reason), good("a")]
    assert asked(calls) == [["a"]]


def test_nothing_to_convert(fake: Make) -> None:
    calls = fake()
    assert convert([]) == []
    assert asked(calls) == []


def test_characters_that_are_none(fake: Make) -> None:
    calls = fake()
    assert len(convert(["\ud800x"])) == 1
    assert asked(calls) == [["?x"]]


def test_environments_within_formulas_are_no_displays(fake: Make) -> None:
    calls = fake()
    latex = [r" \begin{aligned} x", r"y \begin{aligned} x", r"\begin{align} x", r"\begin{gathered} x"]
    convert(latex)
    assert asked(calls) == [["\\relax" + latex[0], *latex[1:3], "\\relax" + latex[3]]]


def test_program_that_does_not_start(fake: Make) -> None:
    fake(before="sys.exit('Cannot locate LaTeXML/Post.pm')")
    with pytest.raises(HarnessError) as caught:
        convert(["a"])
    assert str(caught.value) == (
        "LaTeXML does not start: Cannot locate LaTeXML/Post.pm; install it with: apt-get install latexml"
    )


def test_missing_perl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == ["LaTeXML is not installed: apt-get install latexml"]
    with pytest.raises(HarnessError, match=r"^LaTeXML is not installed: apt-get install latexml$"):
        convert(["a"])


def test_perl_without_latexml(fake: Make) -> None:
    fake(lacks=2, version="")
    assert missing() == ["LaTeXML is not installed: apt-get install latexml"]


@pytest.mark.slow
def test_doctor_without_latexml(fake: Make) -> None:
    fake(lacks=2, version="")
    rows = [row for row in findings.findings() if row[0] == "LaTeXML"]
    assert rows == [["LaTeXML", "LaTeXML is not installed", "apt-get install latexml"]]


@pytest.mark.slow
def test_doctor_with_latexml(fake: Make) -> None:
    fake(version="0.9.9")
    assert missing() == []
    assert ["LaTeXML", "0.9.9", ""] in findings.findings()


def test_reader_converts_once(fake: Make) -> None:
    calls = fake()
    tree = reader(iter(["x", "y", "x"]), "opt")
    assert [show(tree(each).tree) for each in ("y", "x")] == ["[V!y]", "[V!x]"]
    assert asked(calls) == [["x", "y"]]


def test_signs_of_the_official_formulas() -> None:
    row = "<math><mrow><mi>a</mi><mo>\u2212</mo><mi>b</mi></mrow></math>"
    assert show(read(Markup(row, ""), "slt").tree) == "[V!a[-[V!b]]]"


def test_chain_of_relations_as_the_official_formulas_have_it() -> None:
    relation = '<m:apply><m:eq/>{}<m:cn type="integer">0</m:cn></m:apply>'
    chain = relation.format("<m:ci>a</m:ci>") + relation.format('<m:share href="#p1"/>')
    markup = f"<m:math><m:apply><m:and/>{chain}</m:apply></m:math>"
    assert show(read(Markup("", markup), "opt").tree) == "[U!and,0[U!eq,0[V!a],1[N!0]],1[U!eq,0[N!0]]]"


def test_reason_is_of_latexml_though_there_is_markup() -> None:
    reading = read(Markup("<math><mi>x</mi></math>", "", "unexpected"), "slt")
    assert (show(reading.tree), reading.reason) == ("[V!x]", "LaTeXML: unexpected")


def test_what_latexml_did_not_parse_is_a_failure() -> None:
    reading = read(Markup("", "<math><apply><times/><ci>x</ci><cerror><ci>y</ci></cerror></apply></math>"), "opt")
    assert (show(reading.tree), reading.reason) == ("[U!times,0[V!x],1[E!,0[V!y]]]", "LaTeXML: not parsed")


@pytest.mark.usefixtures("at_once")
def test_who_waits_is_told(fake: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fake()
    monkeypatch.setattr(latexml, "BATCH", 2)
    convert(["a", "b", "c", "a"])
    said = capsys.readouterr()
    assert "LaTeXML, formulas: 2 of 3, " in said.err
    assert "LaTeXML, formulas: 3 of 3 in " in said.err
    assert said.out == ""
