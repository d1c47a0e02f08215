"""The commands of the README print what it shows, on the real data that it names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools import Place, commands_in

README = Path(__file__).parents[2] / "README.md"
COPIED = {"Linked_MSE.tsv", "prim_Approach0.tsv", "psu-task1-auto-both-A.tsv"}

MISSING = "harness: apertium is not installed: apt install apertium apertium-eng-spa"


@pytest.mark.slow
@pytest.mark.real
def test_the_commands_of_the_readme(tmp_path: Path, mirror: Path) -> None:
    place = Place(tmp_path)
    place.environment["HARNESS_MIRROR"] = str(mirror)
    for path in place.good("fetch", "arqmath-psu").splitlines():
        if Path(path).name in COPIED:
            shutil.copy(path, place.here)
    shown = [
        (command, text) for command, text in commands_in(README.read_text(encoding="utf-8")) if command[0] != "make"
    ]
    assert len(shown) > 4
    for command, text in shown:
        if any(argument.startswith("sweep=") for argument in command):
            continue  # two minutes of CPU time; what it reaches stands in docs/results.md
        if any("a.run" in argument for argument in command):
            place.good("run", "collection=arqmath-3-task1", "corpus=mse-pages", "system=tfidf-ltn")
            for name, system in (("a.run", "bm25"), ("b.run", "tfidf-ltn")):
                shutil.copy(place.here / "runs" / "arqmath-3-task1" / f"{system}.run", place.here / name)
        process = place.start(*command)
        out, said = process.communicate(timeout=900)
        if process.returncode == 2 and "system=cross-lingual-apertium" in command and shutil.which("apertium") is None:
            assert said.splitlines()[-1] == MISSING  # the README names what that command needs
            continue
        assert process.returncode == 0, said
        lines = [line for line in text.splitlines() if line and line != "..."]
        printed = [line for line in out.splitlines() if line]
        assert [line for line in lines if line not in (*printed, *said.splitlines())] == []
        if text and "..." not in text.splitlines():
            assert [line for line in printed if line not in lines] == []
