"""The command `check`, its SARIF, the pre-commit hook and the GitHub Action, run as they stand."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml
from refusals import refusal as message
from refusals import refuses

import harness as h
from harness.cli.check import check_command
from harness.collections.load import local_collection
from harness.render.formats import SarifFinding, SarifRule, sarif, uri
from harness.scoring.inspection import RULES

ROOT = Path(__file__).parents[3]
GOOD = "".join(
    f"{t} Q0 {t}-d{n} {n} {20 - n - n * n / 100} mine\n" for t in ("M.1", "M.2", "M.3") for n in range(1, 13)
)
TIED = "\n" + GOOD.replace(" 1 18.99 ", " 1 17.96 ")  # a blank line, which counts
# The part of SARIF 2.1.0 that is written; the whole schema has the same names, types and required properties.
SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif_part.json").read_text("utf-8"))


def valid(document: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"good.run": GOOD, "tied.run": TIED, "bad.run": "M.1 Q0 d1 1 NaN mine\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def checked(*runs: str, **options: Any) -> int:  # noqa: ANN401
    """The exit code of the command."""
    try:
        check_command(list(runs), **options)
    except typer.Exit as end:
        return end.exit_code
    return 0


def test_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked("good.run", "tied.run") == 0
    assert capsys.readouterr().out.splitlines() == [
        "tied.run:2: note: 6 of 36 results are tied, 6 of them among the first 10 [ties]",
        "2 runs checked: 0 errors, 0 warnings, 1 note",
    ]
    assert checked("bad.run") == 2  # as of score, which refuses it
    assert capsys.readouterr().out.splitlines() == [
        "bad.run:1: error: score 'NaN' is not a finite number [format]",
        "1 run checked: 1 error, 0 warnings, 0 notes",
    ]


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 0), ("note", 1), ("never", 0)])
def test_the_level_that_fails(here: Path, level: str, code: int) -> None:
    assert checked("tied.run", fail_on=level) == code
    assert checked("bad.run", fail_on=level) == (0 if level == "never" else 2)


def test_sarif(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked("tied.run", "bad.run", form="sarif", fail_on="never") == 0
    run = valid(json.loads(capsys.readouterr().out))["runs"][0]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [("ties", "note"), ("format", "error")]
    for each in run["results"]:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "tied.run"}, "region": {"startLine": 2}}
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(RULES)


def test_a_file_and_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked("tied.run", form="sarif", output=Path("out/check.sarif")) == 0
    assert "1 run checked" in capsys.readouterr().out
    assert len(valid(json.loads(Path("out/check.sarif").read_text("utf-8")))["runs"][0]["results"]) == 1


def test_uris_and_empty_reports() -> None:
    assert valid(sarif([], [], "t", "1"))["runs"][0]["results"] == []
    found = valid(sarif([SarifFinding("r", "m", "a b/ü.run")], [SarifRule("r", "note", "t", "")], "t", "1"))
    place = found["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b/%C3%BC.run"}}
    assert uri("c:x.run") == "c%3Ax.run"


def test_a_collection(capsys: pytest.CaptureFixture[str]) -> None:
    runs = ROOT / "runs/mini/mini-task2/overlap-title.run"
    assert checked(str(runs), collection="mini-task2", corpus="mini-formulas", fail_on="warning") == 1
    said = capsys.readouterr().out
    for rule in ("missing-topics", "short-topics", "constant-scores", "ties", "same-ranking"):
        assert f"[{rule}]" in said
    assert "unknown" not in said
    assert "judged" not in said
    assert checked(str(ROOT / "runs/mini/mini-task1/overlap.run"), collection="mini-task2") == 2
    assert "[unknown-topic]" in capsys.readouterr().out


def test_judgments_and_topics_in_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("qrels.txt").write_text("M.1 0 M.1-d3 1\nM.9 0 x 0\n", encoding="utf-8")
    Path("topics.tsv").write_text("M.1\tone\nM.2\ttwo\nM.9\tthree\n", encoding="utf-8")
    assert checked("good.run", qrels=Path("qrels.txt"), topics=Path("topics.tsv")) == 2
    assert capsys.readouterr().out.splitlines() == [
        "good.run:25: error: the collection lacks 1 topic, such as 'M.3' [unknown-topic]",
        "good.run: warning: 1 of 2 topics have no results, such as 'M.9' [missing-topics]",
        "1 run checked: 1 error, 1 warning, 0 notes",
    ]


def test_what_scoring_refuses_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("qrels.txt").write_text("1 0 d1 1\n2 0 d1 1\n", encoding="utf-8")
    Path("none.run").write_text("999 Q0 d0 1 100 a\n", encoding="utf-8")
    Path("some.run").write_text("# made by hand\n1 Q0 d1 1 100 a\n999 Q0 d0 1 100 a\n", encoding="utf-8")
    said = "run a: none of its topics (999, ...) is judged (1, 2, ...)"
    assert message(lambda: h.evaluate(h.task(local_collection(Path("qrels.txt"))), "none.run")) == said
    assert checked("none.run", qrels=Path("qrels.txt")) == 2
    assert capsys.readouterr().out.startswith(f"none.run: error: {said} [not-scored]\n")
    assert checked("b/c=some.run", qrels=Path("qrels.txt")) == 0
    assert capsys.readouterr().out.startswith("some.run:3: note: no judgments for 1 topic, such as '999' [unjudged-")


def test_private_judgments_are_not_used(
    capsys: pytest.CaptureFixture[str], conf: Callable[[str, str, str], Path], tmp_path: Path
) -> None:
    """A run of judged documents in their order: nothing of that is said, and missing topics are those of all topics."""
    conf(
        "collection",
        "secret",
        "name: secret\ntitle: S\nlicence: CC0\nprotocol: arqmath-task1\neditions:\n"
        "  hidden: {title: hidden, qrels: {embedded: qrels/mini-task1.txt}, private: true}\n"
        "topics: {reader: jsonl, embedded: topics/mini-task1.eng.jsonl}\n",
    )
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for line in (ROOT / "qrels/mini-task1.txt").read_text("utf-8").splitlines():
        topic, _, doc, grade = line.split()
        by_topic.setdefault(topic, []).append((int(grade), doc))
    lines = [
        f"{topic} Q0 {doc} {n} {30 - n - n * n / 99} mine\n"
        for topic, docs in by_topic.items()
        for n, (_, doc) in enumerate(sorted(docs, reverse=True), 1)
    ]
    run = tmp_path / "leak.run"
    run.write_text("".join(lines), encoding="utf-8")
    checked(str(run), collection="mini-task1")
    assert "[judgment-order]" in capsys.readouterr().out
    checked(str(run), collection="secret")
    printed = capsys.readouterr()
    assert "judg" not in printed.out.replace(str(run), "")
    assert "edition hidden is private: nothing is checked against its judgments" in printed.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"form": "sariff"}, "--format sariff: unknown; did you mean 'sarif'?"),
        ({"fail_on": "errors"}, "--fail-on errors: unknown; did you mean 'error'?"),
        ({"run_format": "trecc"}, "--run-format trecc: no such format; did you mean 'trec'?"),
        ({"collection": "mini-task1", "qrels": Path("q")}, "--collection and --qrels: say one of them"),
        ({"topics": Path("t")}, "--topics: takes a file of topics, and goes with --qrels"),
        ({"edition": "official"}, "--edition: goes with --collection"),
    ],
)
def test_wrong_options(here: Path, options: dict[str, Any], says: str) -> None:
    refuses(re.escape(says), lambda: checked("good.run", **options))
    refuses(r"absent\.run: no such file", lambda: checked("good.run", "absent.run"))


# ---- the hook and the action ------------------------------------------------------------------------------------


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Finds `harness` first, and the code of this tree."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "HARNESS_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT), **more}


@pytest.mark.slow
def test_the_hook(here: Path) -> None:
    """Its entry is called with the files whose names fit, as pre-commit does."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (here / "packed.run.gz").write_bytes(gzip.compress(GOOD.encode()))
    (here / "runs.md").write_text("no run", encoding="utf-8")
    files = sorted(path.name for path in here.iterdir() if re.search(hook["files"], path.name))
    assert files == ["bad.run", "good.run", "packed.run.gz", "tied.run"]
    assert hook["language"] == "python"
    command = [*shlex.split(hook["entry"]), *files]
    done = subprocess.run(command, cwd=here, env=environment(here), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.splitlines()[0] == "bad.run:1: error: score 'NaN' is not a finite number [format]"


def step(name: str, inputs: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The script of a step of the action, and its variables with the inputs in them."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    given = {key: each.get("default", "") for key, each in action["inputs"].items()} | inputs
    (found,) = [each for each in action["runs"]["steps"] if each["name"] == name]
    assert "${{" not in found["run"]
    values = {f"inputs.{key}": value for key, value in given.items()} | {"github.action_path": str(ROOT)}
    env = {
        key: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text) for key, text in found["env"].items()
    }
    return found["run"], env


def act(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    script, env = step(name, {key.replace("_", "-"): value for key, value in inputs.items()})
    settings = environment(folder, GITHUB_OUTPUT=str(folder / "github-output"), **env)
    # As GitHub runs `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_action_checks(here: Path) -> None:
    (here / "deep/er").mkdir(parents=True)
    (here / "deep/er/with a blank.run").write_text(GOOD, encoding="utf-8")
    done = act(
        "Check", here, runs="good.run\ndeep/**/*.run\nnothing*.run\n", collection="mini-task1", fail_on="warning"
    )
    assert done.returncode == 1, done.stderr  # of 42 topics, 39 have no results
    assert "2 runs checked" in done.stdout
    assert "deep/er/with a blank.run: warning: 39 of 42 topics have no results" in done.stdout
    assert (here / "github-output").read_text("utf-8") == "sarif=run-check.sarif\n"
    found = valid(json.loads((here / "run-check.sarif").read_text("utf-8")))
    assert "deep/er/with%20a%20blank.run" in json.dumps(found)


@pytest.mark.slow
def test_the_action_without_files_and_with_hostile_inputs(here: Path) -> None:
    done = act("Check", here, runs="none*.run\n")
    assert (done.returncode, done.stdout.splitlines()[0]) == (2, "::error::no file fits runs: none*.run")
    done = act("Check", here, runs="$(touch gone).run\n", collection="$(touch gone)")
    assert (done.returncode, done.stderr) == (2, "harness: $(touch gone).run: no such file\n")
    assert not (here / "gone").exists()


def test_the_action_installs_itself(here: Path) -> None:
    """With a stand-in for Python that writes down what it is asked."""
    (here / "bin").mkdir()
    (here / "bin/python").write_text('#!/bin/sh\necho "$@" > asked\n', encoding="utf-8")
    (here / "bin/python").chmod(0o755)
    script, env = step("Install", {"runs": ""})
    settings = environment(here, **env)
    settings["PATH"] = f"{here / 'bin'}{os.pathsep}{settings['PATH']}"
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=here, env=settings, check=True)
    assert (here / "asked").read_text("utf-8") == f"-m pip install --quiet {ROOT}\n"
    assert (ROOT / "pyproject.toml").is_file()
