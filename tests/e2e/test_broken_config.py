"""What is wrong with a person's own configuration, its data, and with overrides."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from broken_tools import COLLECTION, PROTOCOL, RUN, SCORE, SYSTEM, place, refused
from tools import CONF, Place, run_text

from harness.errors import suggestion
from harness.io import config

__all__ = ["place"]

STRICT = ("score", "good.run", "-c", "mini-task1", "--protocol", "strict")
MINE = "{here}/conf/collection/mine.yaml"
FORMATS = "expected a list of html, md, tex, json, csv, pdf"
RUN_GROUPS = {"collection", "corpus", "experiment", "protocol", "sweep", "system"}
RUN_KEYS = ", ".join(sorted({*yaml.safe_load((CONF / "run.yaml").read_text()), *RUN_GROUPS} - {"defaults"}))
SYSTEM_NAMES = suggestion("", {"ours", *config.names("system")})

# What is replaced by what, and the fault.
COLLECTIONS: dict[str, tuple[str, str, str]] = {
    "unknown key": (
        "licence: CC0",
        "licence: CC0\nlicense: MIT",
        f"{MINE}: key 'license' is unknown; did you mean 'licence'?",
    ),
    "missing key": ("licence: CC0\n", "", f"{MINE}: key 'licence' is missing"),
    "another name": ("name: mine", "name: yours", f"{MINE}: key 'name' is 'yours', expected the file's name 'mine'"),
    "text for a list": (
        "title: Mine",
        "title: Mine\nnotes: small",
        f"{MINE}: key 'notes' is 'small', expected a list",
    ),
    "text for keys": (
        "topics: {reader: jsonl, file: ../../topics.jsonl}",
        "topics: topics.jsonl",
        f"{MINE}: key 'topics' is 'topics.jsonl', expected keys and values",
    ),
    "text for a number": (
        "judgments: 2",
        "judgments: two",
        f"{MINE}: editions: official: key 'judgments' is 'two', expected a whole number",
    ),
    "reader": ("reader: jsonl", "reader: json", f"{MINE}: topics: reader 'json' is unknown; did you mean 'jsonl'?"),
    "count of judgments": (
        "judgments: 2",
        "judgments: 3",
        f"{{here}}/judged.txt: 1 topic and 2 judgments; {MINE} says 1 and 3",
    ),
    "colon in a value": (
        "title: Mine",
        "title: Mine: all",
        f"{MINE}:2: not valid YAML: mapping values are not allowed in this context",
    ),
    "tab": (
        "    topics: 1",
        "    \ttopics: 1",
        f"{MINE}:9: not valid YAML: found character that cannot start any token",
    ),
    "bracket left open": (
        "{file: ../../judged.txt}",
        "{file: ../../judged.txt",
        f"{MINE}:9: not valid YAML: did not find expected ',' or '}}'",
    ),
    "key given twice": (
        "title: Mine",
        "title: Mine\nname: mine",
        f"{MINE}:3: not valid YAML: key 'name' is on line 1 already",
    ),
    "Python object": (
        "title: Mine",
        "title: !!python/object/apply:os.system [ls]",
        f"{MINE}:2: not valid YAML: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/object/apply:os.system'",
    ),
    "nothing": (COLLECTION, "# nothing yet\n", f"{MINE}:1: expected keys and values"),
}

DATA: dict[str, tuple[str, str, str]] = {
    "judged twice": (
        "judged.txt",
        "T1 0 a 1\nT1 0 a 0\n",
        "{here}/judged.txt:2: document 'a' of topic 'T1' is judged on line 1 already",
    ),
    "topic twice": (
        "topics.jsonl",
        '{"id": "T1", "title": "x"}\n{"id": "T1", "title": "y"}\n',
        "{here}/topics.jsonl:2: topic 'T1' is on line 1 already",
    ),
    "only unjudged topics": (
        "mine.run",
        run_text("me", topics=["T2"]),
        "run me: none of its topics (T2, ...) is judged (T1, ...)",
    ),
}

PROTOCOLS: dict[str, tuple[str, str]] = {
    "unknown key": ("dept: 100", "key 'dept' is unknown; did you mean 'depth'?"),
    "depth": ("depth: 0", "key 'depth' is 0, expected a whole number from 1, or null for all"),
    "ties": ("ties: random", "key 'ties' is 'random', expected one of reference, file"),
    "gains": ("gains: {2: high}", "key 'gains' is {2: 'high'}, expected grades and gains such as {2: 1.0, 1: 0.3}"),
    "prime": ("prime: 1", "key 'prime' is 1, expected true or false"),
    "measure": ("measures: [nDGC]", "key 'measures': measure 'nDGC' is unknown; did you mean 'nDCG'?"),
    "measures as text": ("measures: AP", "key 'measures' is 'AP', expected a list such as [nDCG, AP, P@10]"),
    "no measures": ("measures: []", "key 'measures' is missing"),
}

TARGET = "harness.systems.baselines.Overlap"
SYSTEMS: dict[str, tuple[str, str, str]] = {
    "no class": (
        "harness.systems.baselines.Overlap",
        "Overlap",
        "run: system: key '_target_' is 'Overlap', expected a class such as harness.systems.baselines.Overlap",
    ),
    "unknown class": (
        "baselines.Overlap",
        "baselines.Overlpa",
        "run: system: key '_target_': harness.systems.baselines has no 'Overlpa'",
    ),
    "unknown module": (
        "harness.systems.baselines",
        "nosuchmodule",
        "run: system: nosuchmodule.Overlap cannot be loaded: module 'nosuchmodule' is neither in the current folder "
        "({here}) nor installed",
    ),
    "extra that is not installed": (
        "title: Ours\n_target_: harness.systems.baselines",
        "extra: dense\n_target_: nosuchmodule",
        "run: system: nosuchmodule.Overlap cannot be loaded: module 'nosuchmodule' is neither in the current folder "
        "({here}) nor installed; "
        "install it with: pip install 'mathir-harness[dense]'",
    ),
    "unknown parameter": (
        "depth: 10",
        "dept: 10",
        "run: system: key 'dept' is unknown to harness.systems.baselines.Overlap; did you mean 'depth'?",
    ),
    "type of a parameter": ("depth: 10", "depth: ten", "run: system: key 'depth' is 'ten', expected a whole number"),
    "missing parameter": ("Overlap\ndepth: 10", "External", "run: system: key 'path' is missing"),
    "function written in C": (
        TARGET,
        "builtins.print",
        "run: system: key '_target_': builtins.print is not a class of a system",
    ),
    "exception": (
        TARGET,
        "builtins.KeyError",
        "run: system: key '_target_': builtins.KeyError is not a class of a system",
    ),
    "no signature": (TARGET, "builtins.dict", "run: system: key '_target_': builtins.dict is not a class of a system"),
    "no function": (TARGET, "sys.path", "run: system: key '_target_': sys.path is not a class of a system"),
    "class of another thing": (
        f"{TARGET}\ndepth: 10",
        "json.JSONDecoder",
        "run: system: key '_target_': json.JSONDecoder gives JSONDecoder, which is not a system: it cannot be called "
        "with one harness.systems.base.Request",
    ),
    "function of another result": (
        f"{TARGET}\ndepth: 10",
        "platform.system",
        "run: system: key '_target_': platform.system gives str, which is not a system: it cannot be called "
        "with one harness.systems.base.Request",
    ),
    "no name at all": (
        TARGET,
        "harness..simple",
        "run: system: key '_target_' is 'harness..simple', expected a class such as harness.systems.baselines.Overlap",
    ),
    "title": ("title: Ours", "title: [a]", "{here}/conf/system/ours.yaml: key 'title' is ['a'], expected text"),
    "reference in the title": (
        "title: Ours",
        "title: costs ${x}",
        "{here}/conf/system/ours.yaml: key 'title' holds '${', which Hydra reads as the name of another key; leave it "
        "out, or put a space between",
    ),
    "half a reference": (
        "depth: 10",
        "name: ${x",
        "{here}/conf/system/ours.yaml: key 'name': no viable alternative at input '${x'",
    ),
}

OVERRIDES: dict[str, tuple[tuple[str, ...], str]] = {
    "paper": (("reproduce", "paper=crosmath"), "paper=crosmath: no such paper; did you mean 'crossmath'?"),
    "collection": (
        ("run", "collection=mini-tsak1"),
        "collection=mini-tsak1: no such collection; did you mean 'mini-task1'?",
    ),
    "one of several systems": (
        ("run", "-m", "system=overlap,shufle"),
        "system=shufle: no such system; did you mean 'shuffle'?",
    ),
    "a paper without a run to make again": (
        ("reproduce", "paper=mirmu-msm", "rerun=true"),
        "key 'rerun': the configuration of paper 'mirmu-msm' has no run to make again",
    ),
    "the demonstration again": (
        ("reproduce", "rerun=true"),
        "key 'rerun': the configuration of paper 'demo' has no run to make again",
    ),
    "no name": (("run", "system="), f"system=: no such system; {SYSTEM_NAMES}"),
    "key": (
        ("reproduce", "outputs=x"),
        "reproduce: outputs=x: key 'outputs' is unknown; did you mean 'output'?",
    ),
    "group of the other command": (
        (*RUN, "paper=demo"),
        f"run: paper=demo: key 'paper' is unknown; known: {RUN_KEYS}",
    ),
    "added key": ((*RUN, "+sed=1"), "run: +sed=1: key 'sed' is unknown; did you mean 'seed'?"),
    "removed key": ((*RUN, "~seed"), f"run: ~seed: no key of {CONF}/run.yaml can be removed"),
    "key of a system": (
        (*RUN, "system.dept=10"),
        "run: system.dept=10: system overlap: key 'dept' is unknown; did you mean 'depth'?",
    ),
    "key of a collection": (
        (*RUN, "collection.protocol=mathlib"),
        "run: collection.protocol: a collection is used as its file says; to change it, "
        "write a conf/collection/NAME.yaml of your own",
    ),
    "flag without its use": (
        ("run", "--resolve"),
        "run: --resolve is for the configuration that --cfg job shows; 'harness run --hydra-help' lists the flags",
    ),
    "version of a command": (
        ("run", "--version"),
        "run: --version is a flag of the harness itself: harness --version; 'harness run --hydra-help' lists the flags",
    ),
    "unknown flag": (
        (*RUN, "--nosuch"),
        "run: unrecognized arguments: --nosuch; 'harness run --hydra-help' lists the flags",
    ),
    "flag with another value": (
        (*RUN, "--cfg", "jbo"),
        "run: argument -c/--cfg: invalid choice: 'jbo' (choose from 'job', 'hydra', 'all'); "
        "'harness run --hydra-help' lists the flags",
    ),
    "two flags": (
        (*RUN, "-m", "--cfg", "job"),
        "run: only one of --run, --multirun, --cfg, --info and --shell-completion can be given; "
        "'harness run --hydra-help' lists the flags",
    ),
    "configuration of a sweep": (
        (*RUN, "sweep=bm25-k1-b", "--cfg", "job"),
        "run: --cfg shows one configuration, sweep= makes several; leave sweep= out; "
        "'harness run --hydra-help' lists the flags",
    ),
    "folder of configurations": (
        ("reproduce", "--config-dir", "x"),
        "reproduce: --config-dir has no use here; configurations of your own go below conf/ or HARNESS_CONF; "
        "'harness reproduce --hydra-help' lists the flags",
    ),
    "no run file": (
        ("score", "", "-c", "mini-task1"),
        "Invalid value: '' names no file or folder",
    ),
    "a folder for a run file": (
        ("score", ".", "-c", "mini-task1"),
        ".: is a folder without run.txt or run.txt.gz, expected a file, or a folder of TIRA",
    ),
    "no folder": (
        ("score", "good.run", "-c", "mini-task1", "-o", ""),
        "Invalid value for '--output' / '-o': '' names no file or folder",
    ),
    "open bracket": (("reproduce", "paper=["), "reproduce: paper=[: expected one name, such as paper=all"),
    "no override": (
        (*RUN, "shuffle"),
        "run: Error parsing override 'shuffle'; expected KEY=VALUE, such as collection=NAME",
    ),
    "several without -m": (
        ("reproduce", "paper=demo,crossmath"),
        "reproduce: Ambiguous value for argument 'paper=demo,crossmath'; for a sweep over values add -m, put a "
        "list in [], quote a text that contains a comma",
    ),
    "interpolation": ((*RUN, "output=${nowhere}"), "run: key 'output': Interpolation key 'nowhere' not found"),
    "alpha text": (("reproduce", "alpha=abc"), "reproduce: key 'alpha' is 'abc', expected a number between 0 and 1"),
    "alpha too large": (("reproduce", "alpha=5.0"), "reproduce: key 'alpha' is 5.0, expected a number between 0 and 1"),
    "seed": (("reproduce", "seed=1.5"), "reproduce: key 'seed' is 1.5, expected a whole number"),
    "formats": ((*RUN, "formats=[odt]"), f"run: key 'formats' is ['odt'], {FORMATS}"),
    "one format": ((*RUN, "formats=html"), f"run: key 'formats' is 'html', {FORMATS}"),
    "rerank": ((*RUN, "rerank=maybe"), "run: key 'rerank' is 'maybe', expected true or false"),
    "output": ((*RUN, "output=null"), "run: key 'output' is None, expected a folder's name"),
    "edition": ((*RUN, "edition=all"), "collection mini-task1: edition 'all' is unknown; known: official"),
    "no system": (
        ("run", "collection=mini-task1"),
        f"run: key 'system' is missing; name one with system=NAME ({SYSTEM_NAMES})",
    ),
}


@pytest.mark.slow
def test_the_configuration_is_right_before_it_is_broken(place: Place) -> None:
    assert "mine, edition official" in place.good(*SCORE[:-2])
    assert "protocol strict" in place.good(*STRICT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COLLECTIONS)
def test_collections(place: Place, kind: str) -> None:
    old, new, fault = COLLECTIONS[kind]
    assert old in COLLECTION
    place.write("conf/collection/mine.yaml", COLLECTION.replace(old, new))
    refused(place, SCORE, fault)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DATA)
def test_data_of_a_collection(place: Place, kind: str) -> None:
    path, content, fault = DATA[kind]
    place.write(path, content)
    refused(place, SCORE, fault)


def test_a_name_of_ours(place: Place) -> None:
    place.write("conf/collection/mini-task1.yaml", COLLECTION)
    taken = "the harness has a collection of this name already; choose another file name"
    refused(place, SCORE, f"{{here}}/conf/collection/mini-task1.yaml: {taken}")


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_protocols(place: Place, kind: str) -> None:
    line, fault = PROTOCOLS[kind]
    text = PROTOCOL.replace("measures: [AP]\n", "") if line.startswith("measures") else PROTOCOL
    place.write("conf/protocol/strict.yaml", f"{text}{line}\n")
    refused(place, STRICT, f"{{here}}/conf/protocol/strict.yaml: {fault}")


@pytest.mark.parametrize("kind", SYSTEMS)
def test_systems(place: Place, kind: str) -> None:
    old, new, fault = SYSTEMS[kind]
    assert old in SYSTEM
    place.write("conf/system/ours.yaml", SYSTEM.replace(old, new))
    refused(place, ("run", "collection=mini-task1", "corpus=mini-answers", "system=ours"), fault)


@pytest.mark.parametrize("kind", OVERRIDES)
def test_overrides(place: Place, kind: str) -> None:
    arguments, fault = OVERRIDES[kind]
    refused(place, arguments, fault)


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


def test_aliases_that_are_meant(place: Place) -> None:
    place.write("conf/system/ours.yaml", SYSTEM.replace("depth: 10", "depth: &d 10\nname: ours\nseed: *d"))
    done = place.run(*RUN[:3], "system=ours")
    unknown = "key 'seed' is unknown to harness.systems.baselines.Overlap; known: depth, name, score, title_only"
    assert (done.code, done.err) == (2, f"harness: run: system: {unknown}\n")


@pytest.mark.parametrize("group", ["collection", "corpus", "protocol"])
def test_a_configuration_without_its_name(place: Place, group: str) -> None:
    place.write(f"conf/{group}/mine.yaml", "title: Mine\n")
    arguments = {"collection": "mini-task1", "corpus": "mini-answers", group: "mine"}
    fault = f"{{here}}/conf/{group}/mine.yaml: key 'name' is None, expected the file's name 'mine'"
    refused(place, ("run", *(f"{key}={name}" for key, name in arguments.items()), "system=overlap"), fault)


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
@pytest.mark.parametrize(
    "command", ["list", "doctor", "score x -c mini-task1", "compare x y -c mini-task1", "reproduce", " ".join(RUN)]
)
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
