"""Damage a small world again and again; every command must end well, or with lines that say what is wrong.

A command on damaged files ends with exit code 0 and the same results as on the whole ones, or with exit code 2 and one
line (or a line for each fault of a table). Where a configuration still says something, and something else, other
results are right.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from .damage import damage, mutate
from .world import Done, build, execute

SCORE = ("--per-topic", "--protocol", "mine")
MAKE = ("formats=[json]", "reuse=false")
COMMANDS: dict[str, tuple[str, ...]] = {
    "gzip": ("score", "one.run.gz", "-c", "mine", *SCORE),
    "xz": ("score", "two.run.xz", "-c", "mine", *SCORE),
    "zstd": ("score", "two.run.zst", "-c", "mine", *SCORE),
    "compare": ("compare", "one.run.gz", "two.run.xz", "-c", "mine"),
    "mirror": ("score", "one.run", "-c", "theirs", *SCORE),
    "make": ("run", "collection=mine", "corpus=mine", "system=mine", *MAKE),
    "tree": ("run", "collection=mine", "corpus=mine", "system=tree", *MAKE),
    "theirs": ("run", "collection=theirs", "corpus=theirs", "system=mine", *MAKE),
    "reuse": ("run", "collection=mine", "corpus=mine", "system=mine", "formats=[json]"),
    "list": ("list", "--json"),
    "store": ("store", "ls"),
}
WRITING = ("make", "tree", "theirs")  # what the other commands leave, these leave too
# Kind of damage -> the world it is done to, and which files it befalls, by the command that reads them.
PACKED = ("judged.txt.gz", "topics.jsonl.xz")
MINE = ("conf/*/mine.yaml",)
THEIRS = ("conf/*/theirs.yaml",)
KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "archives": (
        "new",
        {
            "gzip": ("one.run.gz", *PACKED),
            "xz": ("two.run.xz", *PACKED),
            "zstd": ("two.run.zst",),
            "compare": ("one.run.gz", "two.run.xz"),
            "mirror": ("mirror/**/*",),
            "make": ("corpus.jsonl.zst", *PACKED),
            "theirs": ("mirror/**/*",),
        },
    ),
    "configurations": (
        "new",
        {"gzip": MINE, "compare": MINE, "mirror": THEIRS, "make": MINE, "theirs": THEIRS, "list": (*MINE, *THEIRS)},
    ),
    "copies": (
        "used",
        {
            "mirror": ("cache/github.com/**/judged.txt",),
            "theirs": ("cache/github.com/**/*",),
            "reuse": ("runs/mine/mine.*",),
        },
    ),
    "stores": ("used", dict.fromkeys(("make", "tree", "theirs", "store"), ("cache/store/*/*/*",))),
}
ONE_FAULT = ("copies", "stores")  # of a table or a configuration, all faults are told


class Worlds:
    """A world as it is written, and one in which commands have left files; and what each command gives in them."""

    def __init__(self, root: Path) -> None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
        from warm import warm

        self.root = root
        warm()
        build(root / "new")
        self._known: dict[tuple[str, str], Done] = {}

    def _good(self, place: Path, command: tuple[str, ...]) -> Done:
        done = execute(place, command)
        if done.code:
            raise SystemExit(f"{' '.join(command)} fails before any damage:\n{done.err}")
        return done

    def expected(self, world: str, command: str) -> Done:
        """What a command gives where nothing is damaged."""
        if (world, command) not in self._known:
            place = self.copy(world, "good")
            self._known[world, command] = self._good(place, COMMANDS[command])
            shutil.rmtree(place)
        return self._known[world, command]

    def copy(self, world: str, name: str) -> Path:
        """A copy of a world, to do something in."""
        if world == "used" and not (self.root / world).exists():
            shutil.copytree(self.root / "new", self.root / world)
            for command in WRITING:
                self._good(self.root / world, COMMANDS[command])
        shutil.copytree(self.root / world, self.root / name)
        return self.root / name


def _targets(place: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = {path for pattern in patterns for path in place.glob(pattern) if path.is_file()}
    return sorted(path for path in found if path.suffix != ".lock")


def fault(done: Done, expected: Done | None, *, several: bool) -> str:
    """What is wrong with how a command ended; empty if nothing is. `expected`: None if other results may be right."""
    lines = done.err.removesuffix("\n").split("\n")
    if "Traceback" in done.err:
        return "traceback"
    if not all(len(line) <= 500 and (line.isprintable()) for line in lines):
        return "a line that is too long or cannot be printed"
    if done.code == 0:
        same = expected is None or (done.out, done.run) == (expected.out, expected.run)
        return "" if same else "other results"
    if done.code != 2:
        return f"exit code {done.code}"
    said = [line for line in lines if line.startswith("harness: ")]
    if not said or lines[-1] != said[-1]:
        return "no line that says what is wrong"
    return "" if several or len(said) == 1 else f"{len(said)} lines"


def case(worlds: Worlds, kind: str, number: int, seed: int) -> tuple[str, str, Done, Path]:
    """Damage a copy of the world and run a command in it: what was done, what is wrong, how it ended, and where."""
    rng = random.Random(f"{seed} {kind} {number}")
    world, commands = KINDS[kind]
    place = worlds.copy(world, f"{kind}-{number}")
    command = rng.choice(list(commands))
    target = rng.choice(_targets(place, commands[command]))
    expected: Done | None = worlds.expected(world, command)
    if kind == "configurations":
        before = yaml.safe_load(target.read_bytes())
        words = mutate(target, rng)
        if command == "list" or not _means(target, before):
            expected = None
    else:
        everything = tuple(pattern for patterns in commands.values() for pattern in patterns)
        # A run in the place of another one is not damaged.
        others = [path for path in _targets(place, everything) if kind != "archives" or ".run" not in path.name]
        words = damage(target, others, rng)
        if command == "store":
            expected = None
    done = execute(place, COMMANDS[command])
    return f"{words}; {command}", fault(done, expected, several=kind not in ONE_FAULT), done, place


def _means(path: Path, before: object) -> bool:
    """Whether a configuration still says what it said."""
    try:
        return bool(yaml.safe_load(path.read_bytes()) == before)
    except (yaml.YAMLError, ValueError, RecursionError):
        return True  # it says nothing, so nothing else can come of it


def main() -> int:
    """Run the cases; 1 if any of them ended badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--only", type=int, help="the number of a case: it alone, and its folder is kept")
    chosen = parser.parse_args()
    kinds = chosen.kinds.split(",")
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    ends: Counter[str] = Counter()
    bad = 0
    begin = time.monotonic()
    try:
        worlds = Worlds(root)
        numbers = range(chosen.cases) if chosen.only is None else [chosen.only]
        for number in numbers:
            kind = kinds[number % len(kinds)]
            words, wrong, done, place = case(worlds, kind, number, chosen.seed)
            ends[f"{kind}: {wrong or f'exit code {done.code}'}"] += 1
            if wrong:
                bad += 1
                _print(f"{kind} {number}: {wrong} (exit code {done.code}): {words}")
                _print(f"    {done.err.strip()[-300:]!r}")
            if chosen.only is None:
                shutil.rmtree(place)
            else:
                _print(f"{words}: exit code {done.code}\n{done.err}{place}")
    finally:
        if chosen.only is None:
            shutil.rmtree(root)
    for end, count in sorted(ends.items()):
        _print(f"{count:6} {end}")
    _print(f"{bad} of {sum(ends.values())} cases ended badly, {time.monotonic() - begin:.0f} s")
    return 1 if bad else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
