"""Damaged archives, configurations, copies and stores: a command ends as on whole files, or with a line that says why.

Where a configuration still says something, and something else, other results are right. `make fuzz` tries 2,000 cases.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import lzma
import random
import shutil
from pathlib import Path
from random import Random

import pytest
import yaml
from archive_tools import tar
from backports import zstd
from damage import damage, mutate
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


# ---- a small world: configurations, archives, a mirror, runs ----

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WORDS = ("sum", "limit", "integral", "prime", "graph", "proof", "series", "matrix", "group", "ring", "field", "angle")
TOPICS = ("T1", "T2", "T3")


def _checked(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def _source(files: dict[str, bytes]) -> str:
    listed = [
        f"  {path}: {{sha256: {hashlib.sha256(data).hexdigest()}, size: {len(data)}}}\n" for path, data in files.items()
    ]
    head = f"title: Theirs\nrepository: owner/name\ncommit: {COMMIT}\nlicence: CC0\nfiles:\n"
    return head + "".join(listed)


def _collection(name: str, qrels: str, judgments: int) -> str:
    return f"""\
# The judgments are packed.
name: {name}
title: "Mine: {name}"
licence: CC0
protocol: mine
editions:
  official:
    title: ours
    qrels: {qrels}
    topics: 3
    judgments: {judgments}
topics: {{reader: jsonl, file: ../../topics.jsonl.xz}}
notes: [made for damage]
corpus: mine
"""


def _formula(name: str) -> dict[str, str]:
    return {"id": f"f{name}", "latex": f"x_{{{name[1:]}}} + {int(name[1:]) % 3}"}


def build(place: Place) -> None:
    """Write the world into an empty folder; the store and the reused run are made by the commands themselves."""
    rng = random.Random(1)
    ids = [f"d{number}" for number in range(20)]
    runs = {
        tag: "".join(
            f"{topic} Q0 {doc} {rank} {30 - rank}.5 {tag}\n"
            for topic in TOPICS
            for rank, doc in enumerate(rng.sample(ids, 8), 1)
        ).encode()
        for tag in ("one", "two")
    }
    qrels = "".join(f"{topic} 0 {doc} {rng.randrange(3)}\n" for topic in TOPICS for doc in ids[:12]).encode()
    topics = "".join(
        json.dumps({"id": topic, "title": " ".join(rng.sample(WORDS, 3)), "formulas": [_formula(topic)]}) + "\n"
        for topic in TOPICS
    ).encode()
    corpus = "".join(
        json.dumps({"id": doc, "text": " ".join(rng.choices(WORDS, k=9)), "formulas": [_formula(doc)]}) + "\n"
        for doc in ids
    ).encode()
    theirs = {"judged.txt": qrels, "corpus.jsonl": corpus}
    kept = {f"name-{COMMIT}/{path}": data for path, data in theirs.items()}
    plain = {
        "conf/collection/mine.yaml": _collection("mine", "{file: ../../judged.txt.gz}", 36),
        "conf/collection/theirs.yaml": _collection("theirs", "{source: theirs, path: judged.txt}", 36),
        "conf/corpus/mine.yaml": "name: mine\ntitle: Mine\nlicence: CC0\nfile: {file: ../../corpus.jsonl.zst}\n"
        "fields: {id: id, text: body, formulas: formulas}\n",
        "conf/corpus/theirs.yaml": "name: theirs\ntitle: Theirs\nlicence: CC0\n"
        "file: {source: theirs, path: corpus.jsonl}\nfields: {id: id, text: [body, title]}\nkeep: [text]\n",
        "conf/protocol/mine.yaml": "name: mine\ntitle: Mine\nmeasures: [nDCG@5, AP, P@3]\n"
        "relevant_from: 1\ndepth: 100\n",
        "conf/system/mine.yaml": "title: Mine  # a copy of ours\nname: mine\n"
        "_target_: harness.systems.lexical.system.BM25\nk1: 0.9\n"
        "view: {name: latex, lower: true, stop: null, stem: null, formulas: null}\ndepth: 10\n",
        "conf/source/theirs.yaml": _source(theirs),
    }
    packed = {
        "one.run": runs["one"],
        "one.run.gz": gzip.compress(runs["one"], mtime=0),
        "two.run.xz": lzma.compress(runs["two"]),
        "two.run.zst": _checked(runs["two"]),
        "judged.txt.gz": gzip.compress(qrels, mtime=0),
        "topics.jsonl.xz": lzma.compress(topics),
        "corpus.jsonl.zst": _checked(corpus),
        f"mirror/github.com/owner/name/{COMMIT}.tar.xz": tar(kept),
    }
    place.lay({**plain, **packed})


class Worlds:
    """A world as it is written, one in which commands have left files, and what each command gives in them."""

    def __init__(self, root: Path) -> None:
        self.root, self.numbers = root, itertools.count()
        self.known: dict[tuple[str, str], Ended] = {}
        new = self.copy(None)
        build(new)
        self.whole = {"new": new.here}
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
