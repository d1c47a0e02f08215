"""What is wrong with files, names, options, configurations and overrides: one exact line a fault, nothing written."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from archive_tools import tar
from case_tables import refusals
from tools import CONF, QRELS, Place, run_text

from harness.errors import LONGEST_LIST, suggestion
from harness.io import config

JUDGED = b"T1 0 a 1\nT1 0 b 0\n"
COLLECTION = """\
name: mine
title: Mine
licence: CC0
protocol: trec_eval
editions:
  official:
    title: ours
    qrels: {file: ../../judged.txt}
    topics: 1
    judgments: 2
topics: {reader: jsonl, file: ../../topics.jsonl}
"""
SYSTEM = "title: Ours\n_target_: harness.systems.baselines.Overlap\ndepth: 10\n"
SCORE = ("score", "mine.run", "-c", "mine", "-o", "reports")
RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap")
OURS = (*RUN[:3], "system=ours")
STRICT = ("score", "good.run", "-c", "mini-task1", "--protocol", "strict")
GOOD = run_text()
FILES: dict[str, str | bytes] = {
    **{"judged.txt": JUDGED, "topics.jsonl": '{"id": "T1", "title": "x"}\n{"id": "T2", "title": "y"}\n'},
    "mine.run": run_text("me", topics=["T1"], docs="ab"),
    **{"good.run": GOOD, "other.run": run_text("other"), "a.run": run_text("one"), "b.run": run_text("two")},
    **{"one.run": "M.1\tQ0\td\t1\t1.5\tt\n", "theirs/First.run": GOOD},
    "conf/collection/mine.yaml": COLLECTION,
    "conf/protocol/strict.yaml": "name: strict\nmeasures: [AP]\n",
    "conf/system/ours.yaml": SYSTEM,
    # Results of earlier work, which must stay as they are.
    **{"runs/good.run": GOOD, "reports/index.html": "an earlier report", "reports/tables/means.csv": "earlier means"},
    "runs/mini-task1/overlap.run": "an earlier run",
    **{"one.txt": "id visual_id\n", "keys.tsv": "id\tvisual_id\nq_1\tv_1\n"},
    "three.tsv": "id\tpost_id\tvisual_id\nq_1\t7\tv_1\n",
    "short.tsv": "id\tvisual_id\nq_1\tv_1\nq_2\n",
}
MINE = "{here}/conf/collection/mine.yaml"
RUN_GROUPS = {"collection", "corpus", "experiment", "protocol", "sweep", "system"}
KNOWN = sorted({"mine", *config.names("collection")})
SHOWN = [name for at, name in enumerate(KNOWN) if len(", ".join(KNOWN[: at + 1])) <= LONGEST_LIST]
# What stands for lists and paths in the tables of refusals.
NAMED = {
    "COLLECTIONS": f"{', '.join(SHOWN)} and {len(KNOWN) - len(SHOWN)} more",
    "FORMATS": "expected a list of html, md, tex, json, csv, pdf",
    "RUN_KEYS": ", ".join(sorted({*yaml.safe_load((CONF / "run.yaml").read_text()), *RUN_GROUPS} - {"defaults"})),
    "SYSTEMS": suggestion("", {"ours", *config.names("system")}),
    **{"CONF": str(CONF), "QRELS": str(QRELS), "MINE": MINE},
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.lay(FILES)
    return made


def filled(place: Place, text: str) -> str:
    for name, value in {**NAMED, "here": str(place.here)}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def refused(place: Place, arguments: tuple[str, ...], fault: str, environment: Mapping[str, str] | None = None) -> None:
    """Assert that a command ends with this one fault, prints nothing else, and leaves all files as they were."""
    assert place.refused(*arguments, environment=environment) == [filled(place, fault)]


@pytest.mark.parametrize(("command", "fault"), [*refusals("options"), *refusals("overrides")])
def test_names_options_and_overrides(place: Place, command: str, fault: str) -> None:
    refused(place, tuple(shlex.split(filled(place, command))), fault)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("M.1 Q0 d 1 nan t\n", "bad.run:1: score 'nan' is not a finite number"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-20],
         "bad.run: compressed file is cut short or damaged: it ends inside of a gzip member"),
        ("M.1 Q0 d 1 1 t\nA.1 Q0 d 1 1 t\n", "bad.run:2: topic 'A.1' is not among the collection's topics"),
    ],
)  # fmt: skip
def test_one_run_file(place: Place, content: str | bytes, fault: str) -> None:
    place.write("bad.run", content)
    refused(place, ("score", "bad.run", "-c", "mini-task1", "-o", "reports"), fault)


# ---- configurations ----


@pytest.mark.slow
def test_the_configuration_is_right_before_it_is_broken(place: Place) -> None:
    assert "mine, edition official" in place.good(*SCORE[:-2])
    assert "protocol strict" in place.good(*STRICT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [*refusals("collections"), (COLLECTION, "# nothing yet\n", "{MINE}:1: expected keys and values")],
)
def test_collections(place: Place, old: str, new: str, fault: str) -> None:
    assert old in COLLECTION
    place.write("conf/collection/mine.yaml", COLLECTION.replace(old, new))
    refused(place, SCORE, fault)


@pytest.mark.parametrize(("old", "new", "fault"), refusals("systems"))
def test_systems(place: Place, old: str, new: str, fault: str) -> None:
    assert old in SYSTEM
    place.write("conf/system/ours.yaml", SYSTEM.replace(old, new))
    refused(place, OURS, fault)


def test_a_name_of_ours(place: Place) -> None:
    place.write("conf/collection/mini-task1.yaml", COLLECTION)
    taken = "the harness has a collection of this name already; choose another file name"
    refused(place, SCORE, f"{{here}}/conf/collection/mini-task1.yaml: {taken}")


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 9)
)
NESTED = {
    "keys": ("x:\n  y: " + "{a: " * 100_000 + "}" * 100_000, 2, "more than 50 levels, one inside the other"),
    "aliases of aliases": (LAUGHS, 6, "more than 100,000 values where all aliases are followed"),
    "alias of itself": ("title: x\nendless: &a [*a]\n", 2, "not valid YAML: found unconstructable recursive node"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NESTED)
def test_nesting_without_end(place: Place, kind: str) -> None:
    text, line, fault = NESTED[kind]
    place.write("conf/system/ours.yaml", text)
    said = f"{place.here}/conf/system/ours.yaml:{line}: {fault}"
    for arguments in (("show", "ours"), OURS):
        refused(place, arguments, said)
    (row,) = (row for row in json.loads(place.good("list", "systems", "--json")) if row["name"] == "ours")
    assert row == {"name": "ours", "state": "broken", "title": said}


@pytest.mark.slow
def test_needs(place: Place) -> None:
    """Of modules, those inside packages, and files; what names none of them is refused and listed as broken."""
    place.lay({"mine.py": "", "data/here.bin": ""})
    needs = "[mine, json.decoder, data/here.bin, json.nosuch, nosuch, data/gone.bin, harness.nosuch, json.decoder.x]"
    place.write("conf/system/ours.yaml", f"{SYSTEM}needs: {needs}\n")
    lacking = "; ".join(
        f"{name}: no such file" if "/" in name else f"{name} is not installed"
        for name in ("json.nosuch", "nosuch", "data/gone.bin", "harness.nosuch", "json.decoder.x")
    )
    (row,) = json.loads(place.good("list", "systems", "--needs", "nosuch", "--json"))
    assert (row["name"], row["state"], row["missing"]) == ("ours", "needs", lacking)
    expected = "the name of a module, or a file's path (with a /), or a list of such; functions are not called"
    fault = rf"{re.escape(str(place.here))}/conf/system/ours.yaml: key 'needs' is .*, expected {re.escape(expected)}"
    for needs in ("", '""', "nosuch:function", "..x", "{a: b}", "5", "[json, 5]"):
        place.write("conf/system/ours.yaml", f"{SYSTEM}needs: {needs}\n")
        (said,) = place.refused(*OURS)
        assert re.fullmatch(fault, said), needs
    assert re.search(fault, place.good("doctor"))
    (row,) = (row for row in json.loads(place.good("list", "systems", "--json")) if row["name"] == "ours")
    assert row["state"] == "broken" and re.fullmatch(fault, row["title"])


@pytest.mark.slow
def test_folders_that_are_not_there(place: Place) -> None:
    gone = place.here / "gone"
    gone.mkdir()
    command = ["sh", "-c", 'rmdir ../gone; exec "$0" "$@"', str(place.program), *RUN]
    done = subprocess.run(command, cwd=gone, env=place.environment, capture_output=True, text=True, check=False)
    fault = "harness: the current folder is not there any more; go to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", fault)
    refused(place, SCORE, "HARNESS_CONF=nowhere: no such folder", {"HARNESS_CONF": "nowhere"})
    refused(place, ("list", "collections"), "HARNESS_MIRROR: no such folder: nowhere", {"HARNESS_MIRROR": "nowhere"})


# ---- files that are fetched, and files that are written ----


def test_a_wrong_checksum(place: Place) -> None:
    commit, other = "0123456789abcdef0123456789abcdef01234567", b"T1 0 a 1\nT1 0 b 2\n"
    archive = f"mirror/github.com/owner/name/{commit}.tar.xz"
    expected, found = (hashlib.sha256(text).hexdigest() for text in (other, JUDGED))
    about = f"title: Theirs\nlicence: MIT\nrepository: owner/name\ncommit: {commit}\n"
    entry = f"files:\n  judged.txt: {{sha256: {expected}, size: {len(other)}}}\n"
    place.write("conf/source/theirs.yaml", about + entry)
    changed = COLLECTION.replace("{file: ../../judged.txt}", "{source: theirs, path: judged.txt}")
    place.write("conf/collection/mine.yaml", changed)
    place.write(archive, tar({f"name-{commit}/judged.txt": JUDGED}))
    wrong = f"expected sha256 {expected}, found {found} in {archive}; nothing was kept"
    refused(place, SCORE, f"owner/name@0123456/judged.txt: {wrong}", {"HARNESS_MIRROR": "mirror"})
    assert not [path for path in place.cache.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_what_cannot_be_written(place: Place) -> None:
    """Below a file; on a disk that is full before the run or before the report is written; to a full device."""
    refused(place, (*RUN, "runs=good.run/runs"), "{here}/good.run: cannot be written: Not a directory")
    earlier = '<meta name="generator" content="mathir-harness">an earlier report'
    place.write("reports/mini-task1/mine/index.html", earlier)
    before = place.files()
    done = place.run(*SCORE[:-1], "one.txt/reports")
    assert (done.code, done.err) == (2, "harness: one.txt/reports/scores.csv: cannot be written: Not a directory\n")
    done = place.run(*RUN, largest=4096)
    assert (done.code, done.out, "running overlap" in done.err) == (2, "", False)
    assert done.err.endswith("harness: runs/mini-task1: cannot be written: File too large\n")
    with Path("/dev/full").open("w") as full:
        done = place.run("list", out=full)
    assert (done.code, done.err) == (2, "harness: the output cannot be written: No space left on device\n")
    assert place.files() == before
    external = ("run", "collection=mini-task1", "system=external", "system.path=good.run", "formats=[html]")
    done = place.run(*external, largest=70_000)
    fault = "reports/mini-task1/mine/index.html: cannot be written: File too large"
    assert (done.code, done.err) == (2, f"running External on mini-task1\nharness: {fault}\n")
    assert place.files("reports") == {name: data for name, data in before.items() if name.startswith("reports/")}
    place.good("score", "runs/mini-task1/mine.run", "-c", "mini-task1")  # the run is whole
