"""What is wrong with a person's own configuration, its data, and with overrides."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
import yaml
from broken_tools import COLLECTION, RUN, SCORE, SYSTEM, place, refused
from case_tables import refusals
from tools import CONF, Place

from harness.errors import suggestion
from harness.io import config

__all__ = ["place"]

STRICT = ("score", "good.run", "-c", "mini-task1", "--protocol", "strict")
MINE = "{here}/conf/collection/mine.yaml"
FORMATS = "expected a list of html, md, tex, json, csv, pdf"
RUN_GROUPS = {"collection", "corpus", "experiment", "protocol", "sweep", "system"}
RUN_KEYS = ", ".join(sorted({*yaml.safe_load((CONF / "run.yaml").read_text()), *RUN_GROUPS} - {"defaults"}))
SYSTEM_NAMES = suggestion("", {"ours", *config.names("system")})


@pytest.mark.slow
def test_the_configuration_is_right_before_it_is_broken(place: Place) -> None:
    assert "mine, edition official" in place.good(*SCORE[:-2])
    assert "protocol strict" in place.good(*STRICT)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "fault"), refusals("collections"))
def test_collections(place: Place, old: str, new: str, fault: str) -> None:
    assert old in COLLECTION
    place.write("conf/collection/mine.yaml", COLLECTION.replace(old, new))
    refused(place, SCORE, fault.replace("{MINE}", MINE))


def test_a_configuration_without_keys(place: Place) -> None:
    place.write("conf/collection/mine.yaml", "# nothing yet\n")
    refused(place, SCORE, f"{MINE}:1: expected keys and values")


def test_a_name_of_ours(place: Place) -> None:
    place.write("conf/collection/mini-task1.yaml", COLLECTION)
    taken = "the harness has a collection of this name already; choose another file name"
    refused(place, SCORE, f"{{here}}/conf/collection/mini-task1.yaml: {taken}")


@pytest.mark.parametrize(("old", "new", "fault"), refusals("systems"))
def test_systems(place: Place, old: str, new: str, fault: str) -> None:
    assert old in SYSTEM
    place.write("conf/system/ours.yaml", SYSTEM.replace(old, new))
    refused(place, ("run", "collection=mini-task1", "corpus=mini-answers", "system=ours"), fault)


@pytest.mark.parametrize(("command", "fault"), refusals("overrides"))
def test_overrides(place: Place, command: str, fault: str) -> None:
    known = {"FORMATS": FORMATS, "RUN_KEYS": RUN_KEYS, "SYSTEMS": SYSTEM_NAMES, "CONF": str(CONF)}
    for name, value in known.items():
        fault = fault.replace(f"{{{name}}}", value)
    refused(place, tuple(shlex.split(command)), fault)


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 9)
)
DEEP = "more than 50 levels, one inside the other"
MANY = "more than 100,000 values where all aliases are followed"
NESTED = {
    "open lists": ("title: " + "[" * 100_000, 1, DEEP),
    "lists": ("title: " + "[" * 100_000 + "]" * 100_000, 1, DEEP),
    "keys": ("x:\n  y: " + "{a: " * 100_000 + "}" * 100_000, 2, DEEP),
    "dashes": ("- " * 100_000, 1, DEEP),
    "aliases of aliases": (LAUGHS, 6, MANY),
    "alias of itself": ("title: x\nendless: &a [*a]\n", 2, "not valid YAML: found unconstructable recursive node"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NESTED)
def test_nesting_without_end(place: Place, kind: str) -> None:
    text, line, fault = NESTED[kind]
    place.write("conf/system/ours.yaml", text)
    for arguments in (("show", "ours"), (*RUN[:3], "system=ours")):
        refused(place, arguments, f"{{here}}/conf/system/ours.yaml:{line}: {fault}")
    (row,) = (row for row in json.loads(place.good("list", "systems", "--json")) if row["name"] == "ours")
    assert row == {"name": "ours", "state": "broken", "title": f"{place.here}/conf/system/ours.yaml:{line}: {fault}"}


@pytest.mark.slow
@pytest.mark.parametrize("needs", ["", '""', "nosuch:function", "..x", "{a: b}", "5", "[json, 5]"])
def test_needs_that_name_nothing(place: Place, needs: str) -> None:
    place.write("conf/system/ours.yaml", f"{SYSTEM}needs: {needs}\n")
    expected = "the name of a module, or a file's path (with a /), or a list of such; functions are not called"
    fault = rf"{re.escape(str(place.here))}/conf/system/ours.yaml: key 'needs' is .*, expected {re.escape(expected)}"
    done = place.run(*RUN[:3], "system=ours")
    assert re.fullmatch(rf"harness: {fault}\n", done.err)
    assert (done.code, done.out) == (2, "")
    assert re.search(fault, place.good("doctor"))
    (row,) = (row for row in json.loads(place.good("list", "systems", "--json")) if row["name"] == "ours")
    assert row["state"] == "broken"
    assert re.fullmatch(fault, row["title"])


@pytest.mark.slow
def test_needs_are_looked_for(place: Place) -> None:
    place.write("mine.py", "")
    place.write("data/here.bin", "")
    needs = "[mine, json.decoder, data/here.bin, json.nosuch, nosuch, data/gone.bin, harness.nosuch, json.decoder.x]"
    place.write("conf/system/ours.yaml", f"{SYSTEM}needs: {needs}\n")
    lacking = "; ".join(
        f"{name}: no such file" if "/" in name else f"{name} is not installed"
        for name in ("json.nosuch", "nosuch", "data/gone.bin", "harness.nosuch", "json.decoder.x")
    )
    (row,) = json.loads(place.good("list", "systems", "--needs", "nosuch", "--json"))
    assert (row["name"], row["state"], row["missing"]) == ("ours", "needs", lacking)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["list", " ".join(RUN)])
def test_a_folder_that_was_deleted(place: Place, command: str) -> None:
    gone = place.here / "gone"
    gone.mkdir()
    words = [str(place.program), *command.split()]
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../gone; exec "$0" "$@"', *words],
        cwd=gone,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    fault = "harness: the current folder is not there any more; go to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", fault)


def test_a_configuration_folder_that_is_not_there(place: Place) -> None:
    refused(place, SCORE, "HARNESS_CONF=nowhere: no such folder", {"HARNESS_CONF": "nowhere"})
