"""Damaged archives, configurations, copies and stores: a command ends as on whole files, or with a line that says why.

Where a configuration still says something, and something else, other results are right. `make fuzz` tries 2,000 cases.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from random import Random

import pytest
import yaml
from damage import damage, mutate
from damaged_world import build
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tools import Done, Place

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
PACKED = ("judged.txt.gz", "topics.jsonl.xz")
MINE, THEIRS = ("conf/*/mine.yaml",), ("conf/*/theirs.yaml",)
# Kind of damage -> command -> the files that it reads and that are damaged.
DAMAGED: dict[str, dict[str, tuple[str, ...]]] = {
    "archives": {
        "gzip": ("one.run.gz", *PACKED),
        "xz": ("two.run.xz", *PACKED),
        "zstd": ("two.run.zst",),
        "compare": ("one.run.gz", "two.run.xz"),
        "mirror": ("mirror/**/*",),
        "make": ("corpus.jsonl.zst", *PACKED),
        "theirs": ("mirror/**/*",),
    },
    "configurations": {
        **{"gzip": MINE, "compare": MINE, "mirror": THEIRS, "make": MINE, "theirs": THEIRS},
        "list": (*MINE, *THEIRS),
    },
    "copies": {
        "mirror": ("cache/github.com/**/judged.txt",),
        "theirs": ("cache/github.com/**/*",),
        "reuse": ("runs/mine/mine.*",),
    },
    "stores": dict.fromkeys(("make", "tree", "theirs", "store"), ("cache/store/*/*/*",)),
}
ONE_FAULT = ("copies", "stores")  # of a table or a configuration, all faults are told

EXAMPLES = min(500, settings().max_examples // 2)  # of each kind

Ended = tuple[Done, bytes]


class Worlds:
    """A world as it is written, one in which commands have left files, and what each command gives in them."""

    def __init__(self, root: Path) -> None:
        self.root, self.numbers = root, itertools.count()
        self.known: dict[tuple[str, str], Ended] = {}
        self.whole = {"new": self.copy(None).here}
        build(self.whole["new"])
        used = self.copy("new")
        for command in ("make", "tree", "theirs"):
            ended(used, command)
        self.whole["used"] = used.here

    def copy(self, world: str | None) -> Place:
        """A copy of a world, to do something in."""
        place = Place(self.root / str(next(self.numbers)))
        place.environment |= {
            "HARNESS_CACHE": str(place.here / "cache"),
            "HARNESS_MIRROR": str(place.here / "mirror"),
            "HARNESS_PIPE_SECONDS": "0.1",
        }
        if world is not None:
            shutil.copytree(self.whole[world], place.here, dirs_exist_ok=True)
        return place

    def expected(self, world: str, command: str) -> Ended:
        """What a command gives where nothing is damaged."""
        if (world, command) not in self.known:
            self.known[world, command] = ended(self.copy(world), command)
        return self.known[world, command]


def ended(place: Place, command: str) -> Ended:
    """How a command ended, and the run that it made or found (empty for other commands)."""
    given = dict(argument.partition("=")[::2] for argument in COMMANDS[command])
    done = place.run(*COMMANDS[command])
    run = place.here / "runs" / given.get("collection", "") / f"{given.get('system', '')}.run"
    return done, run.read_bytes() if run.is_file() and not done.code else b""


def targets(place: Place, patterns: tuple[str, ...]) -> list[Path]:
    found = {path for pattern in patterns for path in place.here.glob(pattern) if path.is_file()}
    return sorted(path for path in found if path.suffix != ".lock")


def still_means(path: Path, before: object) -> bool:
    """Whether a configuration says what it said; one that says nothing cannot give other results."""
    try:
        return bool(yaml.safe_load(path.read_bytes()) == before)
    except (yaml.YAMLError, ValueError, RecursionError):
        return True


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    return Worlds(tmp_path_factory.mktemp("worlds"))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", DAMAGED)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
@given(rng=st.randoms(use_true_random=True))
def test_damage(worlds: Worlds, kind: str, rng: Random) -> None:
    world = "new" if kind in ("archives", "configurations") else "used"
    place = worlds.copy(world)
    command = rng.choice(list(DAMAGED[kind]))
    target = rng.choice(targets(place, DAMAGED[kind][command]))
    same = command not in ("list", "store")
    if kind == "configurations":
        before = yaml.safe_load(target.read_bytes())
        words = mutate(target, rng)
        same = same and still_means(target, before)
    else:
        everything = tuple(pattern for patterns in DAMAGED[kind].values() for pattern in patterns)
        # A run in the place of another one is not damaged.
        others = [path for path in targets(place, everything) if kind != "archives" or ".run" not in path.name]
        words = damage(target, others, rng)
    note(f"{words}; {command}; in {place.here}")
    done, run = ended(place, command)
    lines = done.err.removesuffix("\n").split("\n")
    assert "Traceback" not in done.err, done.err
    assert all(len(line) <= 500 and line.isprintable() for line in lines), done.err
    if done.code == 0:
        whole, theirs = worlds.expected(world, command)
        assert not same or (done.out, run) == (whole.out, theirs)
    else:
        said = [line for line in lines if line.startswith("harness: ")]
        assert done.code == 2 and lines[-1] == said[-1]
        assert kind not in ONE_FAULT or len(said) == 1
    shutil.rmtree(place.here.parent)
