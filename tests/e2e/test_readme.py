"""The commands of the README and of the pages that use real data print what is shown."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from shown_commands import commands_in, differences
from tools import Place

from harness.io import config
from harness.systems import states

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [page for name in ("tutorials", "how-to", "explanation") for page in (DOCS / name).glob("*.md")]
MISSING = "harness: apertium is not installed: apt install apertium apertium-eng-spa"
LONG = ("sweep=bm25", "sweep=rrf")  # minutes of CPU time; what it reaches stands in docs/results.md
REAL = ("runs", "experiments", "neural", "theorems", "crosslingual", "sweeps")


def check(place: Place, command: list[str], shown: str) -> None:
    """Run a command; each line that is shown is printed, and if none is left out (`...`), the other way round too."""
    done = place.run(*command)
    if done.code == 2 and "system=cross-lingual-apertium" in command and shutil.which("apertium") is None:
        assert done.err.splitlines()[-1] == MISSING  # the page names what that command needs
        return
    assert done.code == 0, done.err
    assert differences(shown, done.out, done.err) == []


@pytest.mark.slow
def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    place = Place(tmp_path)
    made, *commands = commands_in((ROOT / "README.md").read_text(encoding="utf-8"))
    assert made[0] == ["make", "demo"]
    assert len(commands) > 8
    for command, shown in commands:
        if command[0] != "make":
            check(place, command, shown)


def test_the_readme_is_short_and_names_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(DOCS)) for path in (*DOCS.glob("*.md"), *GUIDES)}
    assert pages - set(re.findall(r"\]\((\S+\.md)\)", index)) == {"README.md"}


def test_the_numbers_of_systems() -> None:
    """Counted from the configurations, so that the numbers do not depend on what is installed here."""
    kinds: Counter[str] = Counter()
    for name in config.names("system"):
        found = list(states.parts(config.load("system", name)[0]))
        needs = any(part.get("needs") for part in found) or states.needed_models(found)
        kinds["listed" if states.registered(found) else "need" if needs else "run"] += 1
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"configures (\d+) systems: (\d+) run without .*?, (\d+) need some, (\d+) are only listed", text)
    assert said
    assert [int(number) for number in said.groups()] == [
        kinds.total(),
        *(kinds[kind] for kind in ("run", "need", "listed")),
    ]


@pytest.mark.heavy
@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_the_commands_of_a_page(tmp_path: Path, mirror: Path, name: str) -> None:
    place = Place(tmp_path)
    place.environment["HARNESS_MIRROR"] = str(mirror)
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for path, content in re.findall(r"^`(conf/\S+\.yaml)`:\n\n```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        place.write(path, content)
    commands = commands_in(text)
    assert commands
    for command, shown in commands:
        if any(argument.startswith(LONG) for argument in command):
            continue
        if any("a.run" in argument for argument in command):
            for file, system in (("a.run", "bm25"), ("b.run", "tfidf-ltn")):
                place.good("run", "collection=arqmath-3-task1", "corpus=mse-pages", f"system={system}")
                shutil.copy(place.here / "runs" / "arqmath-3-task1" / f"{system}.run", place.here / file)
        check(place, command, shown)
