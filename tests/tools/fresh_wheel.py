"""Installs a wheel in new environments and follows the README there, in an empty folder without the checkout.

python tests/tools/fresh_wheel.py dist/mathir_harness-0.2.0-*.whl python3.11 python3.12

Standard library only. pip takes its settings from PIP_* as usual: PIP_NO_INDEX=1 and PIP_FIND_LINKS=DIR install from a
folder of wheels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from shown_commands import blocks, check, commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/tutorials/own-collection-and-system.md")
OTHERS = (
    ("--version",),
    ("doctor",),
    ("list", "systems"),
    ("show", "paper", "crossmath"),
    ("reproduce",),
    ("check", "runs/mini-task1/bm25.run", "--collection", "mini-task1"),
    ("export", "collection", "mini-task1", "--as", "trec", "--output", "exported"),
    ("new", "protocol", "strict"),
    ("site", "build", "lab", "--output", "site"),
)
SHELL = ("head",)


def _wrong(command: Sequence[str | Path], here: Path, environment: Mapping[str, str], shown: str) -> list[str]:
    """Runs a command; returns what is wrong with its exit code or with what it prints."""
    done = subprocess.run(
        command, cwd=here, env=environment, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    wrong = [f"exit code {done.returncode}: {done.stderr[-2000:]}"] if done.returncode else []
    try:
        check(shown, done.stdout, done.stderr)
    except AssertionError as error:
        wrong.append(str(error))
    return [f"{' '.join(map(str, command[1:]))[:80]}: {line}" for line in wrong]


def followed(programs: Path, place: Path) -> tuple[int, list[str]]:
    """Follows the pages with the programs of an environment, each page in an empty folder below `place`.

    Returns the number of commands and what was wrong.
    """
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(place),
        "HARNESS_CACHE": str(place / "cache"),
        "HARNESS_OFFLINE": "1",
        "LANG": "C.UTF-8",
    }
    number, wrong = 0, []
    for name in PAGES:
        here = place / Path(name).stem
        here.mkdir(parents=True)
        parts = list(blocks((ROOT / name).read_text(encoding="utf-8")))
        for block, after in zip(parts, [*parts[1:], None], strict=True):
            todo: list[tuple[Sequence[str | Path], str]] = []
            if block.needs:
                continue
            if block.file:
                (here / block.file).parent.mkdir(parents=True, exist_ok=True)
                (here / block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "python" and not block.part_of:
                printed = after.text if after and not after.before and after.kind in ("", "text") else ""
                todo = [((programs / "python", "-c", block.text), printed)]
            elif block.kind == "console":
                todo = [
                    ([programs / words[0], *words[1:]] if words[0] not in SHELL else words, shown)
                    for words, shown in commands(block.text)
                    if words[0] != "make"
                ]
            for command, shown in todo:
                wrong += _wrong(command, here, environment, shown)
            number += len(todo)
        if name == "README.md":
            for words in OTHERS:
                wrong += _wrong([programs / "harness", *words], here, environment, "")
            number += len(OTHERS)
    return number, wrong


def main(wheel: str, pythons: Sequence[str]) -> int:
    """Tries a wheel with some Pythons, prints one line each; returns 1 if anything was wrong, else 0."""
    failed = False
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            start, programs = time.monotonic(), Path(folder) / "venv" / "bin"
            subprocess.run([python, "-m", "venv", programs.parent], check=True)
            pip = (programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            subprocess.run([*pip, wheel], check=True)
            version = subprocess.check_output([programs / "python", "-V"], text=True).strip()
            number, wrong = followed(programs, Path(folder) / "elsewhere")
            said = f"{number} commands, {len(wrong)} faults, {time.monotonic() - start:.0f} s"
            sys.stdout.write("\n  ".join([f"{version}: {said}", *wrong]) + "\n")
            failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] or [sys.executable]))
