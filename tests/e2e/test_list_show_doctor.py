"""The commands that say what there is: `list`, `show`, `doctor`; completion in the shell."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from case_tables import literals
from tools import CONF, Place, run_text, table

from harness.cli.entries import GROUPS
from harness.io import config


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("looking"))


@pytest.fixture(scope="module")
def everything(place: Place) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = json.loads(place.good("list", "--json"))
    return found


def rows(everything: dict[str, list[dict[str, str]]], group: str) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in everything[group]}


def on_terminal(place: Place, width: int, *arguments: str, **environment: str) -> str:
    """What a command shows on a terminal of a width."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(place.here)
        settings = {**place.environment, "COLUMNS": str(width), "TERM": "xterm", **environment}
        os.execve(place.program, [str(place.program), *arguments], settings)  # noqa: S606
    shown = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        shown += part
    os.waitpid(process, 0)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_the_overview_fits_a_screen(place: Place) -> None:
    lines = place.good("list").splitlines()
    assert len(lines) <= 40
    assert "group" in on_terminal(place, 22, "list")
    assert max(map(len, lines)) <= 120
    counts = {row[0]: row[1] for row in table("\n".join(lines)) if row and row[0] in GROUPS}
    assert counts == {name: str(len(config.names(group.folder))) for name, group in GROUPS.items()}
    for group in GROUPS.values():
        assert set(group.used) <= config.names(group.folder).keys()


@pytest.mark.slow
def test_states(everything: dict[str, list[dict[str, str]]]) -> None:
    collections, systems, papers = (rows(everything, group) for group in ("collections", "systems", "papers"))
    assert collections["mini-task1"]["state"] == "here"
    assert (collections["arqmath-2-task1"]["state"], collections["arqmath-2-task1"]["editions"]) == (
        "fetchable",
        "official/all",
    )
    assert (papers["crossmath"]["published"], papers["crossmath"]["licence"]) == ("110 cells", "none stated")
    assert papers["mirmu-msm"]["missing"].startswith("needs the submitted runs ")
    assert rows(everything, "sources")["pya0"]["licence"].startswith("MIT; ")
    assert systems["overlap"]["state"] == "ready"
    assert re.search(
        r"needs the model sentence-transformers/all-MiniLM-L12-v2 \(hub\) and corpus arqmath-posts "
        r"\(rehearsed at 0\.2\.0\): harness run collection=arqmath-3-task1 corpus=arqmath-posts system=mirmu-minilm$",
        systems["mirmu-minilm"]["missing"],
    )
    assert systems["amador-rgcn"]["missing"].startswith("not implemented: an R-GCN ")
    assert (systems["amador-rgcn"]["state"], systems["moogle"]["state"]) == ("not implemented", "blocked")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--ready",), lambda row: row["state"] == "ready"),
        (("--paper", "saber-math"), lambda row: row["paper"] == "saber-math"),
        (("--needs", "MODEL"), lambda row: "model" in row["missing"]),
    ],
)
def test_filters(
    place: Place,
    everything: dict[str, list[dict[str, str]]],
    options: tuple[str, ...],
    kept: Callable[[dict[str, str]], bool],
) -> None:
    names = [row["name"] for row in everything["systems"] if kept(row)]
    assert 5 < len(names) < len(everything["systems"])
    assert [row[0] for row in table(place.good("list", "system", *options))[1:]] == names


@pytest.mark.heavy
def test_a_list_on_a_terminal_has_a_line_for_each_entry(
    place: Place, everything: dict[str, list[dict[str, str]]]
) -> None:
    heading, *lines = on_terminal(place, 80, "list", "systems", NO_COLOR="1").splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in [heading, *lines]]
    end = plain.index("")
    assert plain[0].split() == ["name", "state", "title"]
    assert [line.split()[0] for line in plain[1:end]] == [row["name"] for row in everything["systems"]]
    assert max(map(len, plain)) <= 80
    assert plain[-1] == "all columns, not cut: harness list systems --wide"
    states = {line[: plain[0].index("title")].split(maxsplit=1)[1].strip() for line in plain[1:end]}
    assert states >= {"ready", "no code", "blocked", "no model+", "no key"}
    assert not {"needs", "not implemented"} & states
    (swept,) = (line for line in on_terminal(place, 80, "list", "sweeps").splitlines() if "bm25-k1-b" in line)
    assert swept.split(maxsplit=1)[1].strip() == "system.k1: 8 values; system.b: 5 values"
    assert any(line.endswith("…") for line in plain)
    assert not re.search(r"\x1b\[3\d", heading)  # no colour
    assert "…" not in on_terminal(place, 80, "list", "systems", "--wide")


@pytest.mark.slow
def test_a_persons_own_configuration(place: Place) -> None:
    mini = (CONF / "collection" / "mini-task1.yaml").read_text()
    place.write("mine/collection/ours.yaml", mini.replace("name: mini-task1", "name: ours"))
    place.write(
        "mine/system/last.yaml",
        "title: The last\nextra: dense\n_target_: nosuchmodule.Last\nneeds: nosuchmodule\ndepth: 3  # how many\n",
    )
    environment = {"HARNESS_CONF": "../here/mine"}
    lacking = "nosuchmodule is not installed: pip install 'mathir-harness[dense]'"
    assert "ours, " in place.good("list", environment=environment)
    doctor = json.loads(place.good("doctor", "--json", environment=environment))
    assert "system last: nosuchmodule is not installed" in doctor["missing"]["pip install 'mathir-harness[dense]'"]
    (row,) = json.loads(place.good("list", "systems", "--needs", "nosuchmodule", "--json", environment=environment))
    assert row == {"name": "last", "state": "needs", "title": "The last", "paper": "", "missing": lacking}
    shown = place.good("show", "last", environment=environment)
    assert re.search(r"^depth +3 +how many$", shown, re.MULTILINE)
    assert lacking in shown
    assert place.run("show", "last").code == 2


@pytest.mark.slow
def test_what_is_broken_is_listed_with_its_fault(tmp_path: Path) -> None:
    place = Place(tmp_path)
    torn = place.write("conf/collection/torn.yaml", "title: [\n")
    place.write("conf/system/gone.yaml", "title: Gone\n_target_: nosuchmodule.Gone\n")
    place.write("conf/system/here.yaml", "title: Here\n_target_: module.Here\n")
    place.write("module.py", "raise SystemExit\n")
    of_ours = {
        "unknown": ("system.BM25\nk3: 1", "key 'k3' is unknown to harness.systems.lexical.system.BM25; "),
        "lost": ("system.BM26", "key '_target_': harness.systems.lexical.system has no 'BM26'"),
        "greedy": ("system.BM25\nresources: {gpus: all}", "resources: key 'gpus' is 'all', expected a whole number"),
        "sound": ("system.BM25\nname: null\nresources: {gpus: 1}", ""),
    }
    for name, (text, _) in of_ours.items():
        place.write(f"conf/system/{name}.yaml", f"title: T\n_target_: harness.systems.lexical.{text}\n")
    found = {row["name"]: row for row in json.loads(place.good("list", "collections", "--json"))}
    assert found["mini-task1"]["state"] == "here"
    fault = f"{torn}:2: not valid YAML: did not find expected node content"
    assert found["torn"] == {"name": "torn", "state": "broken", "title": fault}
    found = {row["name"]: row for row in json.loads(place.good("list", "systems", "--json"))}
    missing = "broken: module 'nosuchmodule' is neither in the current folder nor installed"
    assert (found["gone"]["state"], found["gone"]["missing"], found["here"]["state"]) == ("broken", missing, "ready")
    for name, (_, reason) in of_ours.items():
        assert found[name]["state"] == ("broken" if reason else "ready")
        assert reason in found[name]["missing"]
    assert place.refused("show", "torn") == [fault]
    place.write("conf/system/torn.yaml", "title: [\n")
    assert "system/torn.yaml:2: not valid YAML" in place.good("doctor")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("hydra: [x]\n", "key 'hydra' is ['x'], expected a mapping"),
        ("hydra: {sweeper: {params: ''}}\n", "key 'hydra.sweeper.params' is '', expected a mapping"),
    ],
)
def test_a_sweep_without_parameters_is_broken(tmp_path: Path, content: str, fault: str) -> None:
    place = Place(tmp_path)
    file = place.write("conf/sweep/torn.yaml", content)
    (row,) = (row for row in json.loads(place.good("list", "sweeps", "--json")) if row["name"] == "torn")
    assert row == {"name": "torn", "state": "broken", "title": f"{file}: {fault}"}
    assert place.refused("show", "torn") == [f"{file}: {fault}"]


@pytest.mark.slow
def test_numbers_that_do_not_fit_a_terminal_are_below_their_row(place: Place) -> None:
    place.write("one.run", run_text("one"))
    place.write("two.run", run_text("two", docs=("a1088", "a1007")))
    command = ("compare", "one.run", "two.run", "-c", "mini-task1", "--quiet")
    printed = re.sub(r"\x1b\[\d*m", "", on_terminal(place, 80, *command))
    assert max(map(len, printed.splitlines())) <= 80
    _, row, below = printed.partition("\n\n")[2].splitlines()[:3]
    piped = place.good(*command).partition("\n\n")[2].splitlines()
    fields = re.findall(r"\S+: (.+?)(?:; |$)", below)
    assert below.startswith("    Holm: ")
    assert len(fields) == 2
    assert re.split(r"  +", f"{row.strip()}  {'  '.join(fields)}") == re.split(r"  +", piped[1].strip())


@pytest.mark.slow
def test_a_system_is_shown(place: Place) -> None:
    shown = place.good("show", "bm25")
    assert shown.startswith("bm25: BM25, Lucene's variant\n")
    assert re.search(r"^k1 +1\.2 +saturation of the term frequency$", shown, re.MULTILINE)
    assert re.search(r"^delta +1\.0 +of bm25l and bm25\+$", shown, re.MULTILINE)
    assert "stem: porter, formulas: null}" in shown
    folded = on_terminal(place, 80, "show", "bm25")
    assert "…" not in folded
    assert "`abbreviations`," in folded
    narrow = on_terminal(place, 24, "show", "bm25")  # no table fits
    assert "depth\n    value: 1000;" in narrow
    example = re.search(r"^example: harness (run .*)$", shown, re.MULTILINE)
    assert example
    assert "runs/mini-task1/bm25.run" in place.good(*example[1].split(), "formats=[json]")
    assert "runs here  runs/mini-task1/bm25.run" in place.good("show", "bm25")


@pytest.mark.slow
def test_files_of_a_collection_are_shown(tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = json.loads(place.good("show", "arqmath-3-task1", "--json"))
    assert {"648 kB", "186 kB", "4 kB"} == {file["size"] for file in document["files"]}
    assert document["facts"]["edition official"] == "the organisers' 78 topics; 78 topics, 34847 judgments"
    shown = place.good("show", "mini-task1")
    for path in (CONF.parent / "qrels/mini-task1.txt", CONF.parent / "topics/mini-task1.eng.jsonl"):
        assert re.search(rf"^{path} +{path.stat().st_size / 1000:.0f} kB +here$", shown, re.MULTILINE)
    place.good("new", "collection", "club")
    conf = place.here / "conf/collection"
    (conf / "club.qrels").unlink()
    assert json.loads(place.good("show", "collection", "club", "--json"))["files"] == [
        {"name": str(conf / "club.qrels"), "size": "", "state": "missing"},
        {"name": str(conf / "club.topics.jsonl"), "size": "1 kB", "state": "here"},
    ]
    (answers,) = json.loads(place.good("show", "corpus", "mini-answers", "--json"))["files"]
    assert (answers["name"], answers["state"]) == (str(CONF.parent / "corpora/mini-answers.jsonl"), "here")


@pytest.mark.slow
def test_a_name_of_a_paper_shows_the_paper_and_names_the_others(place: Place) -> None:
    others = "others of this name: harness show protocol crossmath, harness show experiment crossmath\n"
    shown = place.good("show", "crossmath")
    assert shown == place.good("show", "paper", "crossmath") + others
    assert re.findall(r"^ *state +.*", shown, re.MULTILINE) == ["  state      fetchable"]


@pytest.mark.heavy
def test_doctor(place: Place) -> None:
    found = json.loads(place.good("doctor", "--json"))
    assert found["works"]["Python"] == sys.version.split()[0]
    assert found["works"]["cache"] == str(place.cache)
    assert found["works"]["configuration"] == str(CONF)
    assert found["manual"]["data must come from HARNESS_MIRROR or the cache"] == [
        "network: forbidden by HARNESS_OFFLINE"
    ]
    commands = [line for line in found["missing"] if not line.startswith(("harness fetch ", "pip ", "apt"))]
    assert commands == []
    assert len({line.partition(";")[0] for line in found["missing"]}) == len(found["missing"])
    models = found["missing"]["harness fetch MODEL"]
    assert "witiko/mathberta" in models
    assert len(set(models)) == len(models) > 10
    printed = place.good("doctor").splitlines()
    assert printed[0] == "works"
    assert sum("harness fetch MODEL" in line for line in printed) == 1
    assert len(printed) < 40
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in on_terminal(place, 80, "doctor").splitlines()]
    assert all(len(line) <= 80 or "http" in line for line in plain)  # an address is not broken
    said = place.good("doctor", environment={"HARNESS_MIRROR": "nowhere"})
    assert "mirror: nowhere does not exist" in said


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_to_is_a_fault(place: Place) -> None:
    place.write("file", "")
    done = place.run("doctor", environment={"HARNESS_CACHE": "file/cache"})
    assert done.code == 2
    assert "set HARNESS_CACHE to a folder of yours" in done.out


@pytest.mark.parametrize(("line", "offered"), literals("commands/completion"))
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion(place: Place, line: str, offered: list[str], shell: str) -> None:
    words = line.split()
    if shell == "fish" and "=" in words:
        pytest.skip("fish does not split words at =")
    typed = {
        "bash": {"COMP_WORDS": f"harness {line}", "COMP_CWORD": str(len(words))},
        "fish": {"_TYPER_COMPLETE_ARGS": f"harness {line}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    printed = place.run(environment={"_HARNESS_COMPLETE": f"complete_{shell}", **typed}).out
    assert [line.split("\t")[0] for line in printed.splitlines()] == offered


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "reproduce"])
def test_help_of_run_explains_every_key(place: Place, command: str) -> None:
    main = place.good("--help")
    assert main.index("Runs and scores:") < main.index("Information and data:") < main.index("Shared tasks:")
    text = place.good(command, "--help")
    keys = re.findall(r"^(?:  - )?(\w+): (?!$)", (CONF / f"{command}.yaml").read_text().partition("\nhydra:")[0], re.M)
    assert len(keys) > 8
    for key in keys:
        assert re.search(rf"\b{key}=", text), key
    assert len(text.splitlines()) < 50
    assert "amador-rgcn" not in text  # no list of all names
