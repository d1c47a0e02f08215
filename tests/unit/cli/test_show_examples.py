"""The examples that `harness show` prints of systems and sweeps: composed, and their systems built."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from harness.cli import facts
from harness.cli.overrides import GROUPS, checked_overrides
from harness.cli.run import check_run_settings
from harness.cli.settings import RunSettings, checked
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.experiments.cell_composition import composer, initialized
from harness.experiments.produce import check_untrained
from harness.io import config
from harness.systems.build import build_system

SYSTEMS = {
    name: mapping for name in config.names("system") if "state" not in (mapping := config.load("system", name)[0])
}
FIRST = {str(mapping["_target_"]): name for name, mapping in reversed(SYSTEMS.items())}  # of each class


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def example(capsys: pytest.CaptureFixture[str], group: str, name: str) -> list[str]:
    facts.show(group, name, as_json=True)
    command = json.loads(capsys.readouterr().out)["example"]
    assert command.startswith("harness run ")
    return shlex.split(command)[2:]


def check_runnable(words: Sequence[str]) -> None:
    """Composes and builds what `harness run` would with these words."""
    words = [word.replace("llm=ENDPOINT", "llm=local") for word in words]
    given, _ = checked_overrides("run", words)
    with initialized("run"):
        found = checked(RunSettings, composer("run", GROUPS["run"])(given), "run")
    check_run_settings(found, sweeping=False)
    collection = load_collection(str((found.collection or {})["name"]))
    check_untrained(build_system(found.system or {}, "system"), collection.name, collection.edition(found.edition).name)


@pytest.mark.parametrize(
    "name", [name if name in FIRST.values() else pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS]
)
def test_systems(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_runnable(example(capsys, "systems", name))


@pytest.mark.parametrize("name", config.names("sweep"))
def test_sweeps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Composed with the first value of each key that varies."""
    words = example(capsys, "sweeps", name)
    swept = config.load("sweep", name)[0]["hydra"]["sweeper"]["params"]
    parser = OverridesParser.create()
    for key, values in swept.items():
        words.append(f"{key}={next(iter(parser.parse_override(f'{key}={values}').sweep_string_iterator()))}")
    check_runnable([word for word in words if word != f"sweep={name}"])


def test_examples_of_ones_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("system", "sweep"):
        (here / "conf" / folder).mkdir(parents=True)
    sweep = here / "conf" / "sweep" / "mine.yaml"
    text = "# @package _global_\nhydra: {sweeper: {params: {system.k: '1,2'}}}\n"
    sweep.write_text(text)
    assert example(capsys, "sweeps", "mine")[-1] == "system=SYSTEM"
    sweep.write_text(f"# For system=mine.\n{text}")
    system = here / "conf" / "system" / "mine.yaml"
    system.write_text("defaults: [fusion-rrf, _self_]\nexample: ['system.runs=[tree,bm25]', collection=mini-task2]\n")
    assert example(capsys, "sweeps", "mine")[-2:] == ["system=mine", "system.runs=[tree,bm25]"]
    words = ["collection=mini-task2", "corpus=mini-answers", "system=mine", "system.runs=[tree,bm25]"]
    assert example(capsys, "systems", "mine") == words
    system.write_text("defaults: [fusion-rrf, _self_]\nexample: bm25\n")
    with pytest.raises(HarnessError, match=r"mine\.yaml: key 'example' is 'bm25', expected a list of KEY=VALUE"):
        facts.show("systems", "mine", as_json=False)
