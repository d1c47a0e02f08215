"""A small collection with a lab on it, and runs to submit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.collections.load import load_collection
from harness.io.files import sha256
from harness.labs.journal import Journal, TeamJoined
from harness.labs.lab import Lab, new_lab

TOPICS = tuple(f"T.{n}" for n in range(1, 9))
UNJUDGED = "T.99"
DOCS = tuple(f"doc-{n}" for n in range(100, 140))
Conf = Callable[[str, str, str], Path]
Judgments = Mapping[str, Mapping[str, int]]
Make = Callable[..., Lab]


def judgments(seed: int = 1) -> dict[str, dict[str, int]]:
    """Grades 0 to 2 of half of the documents of each topic."""
    draw = random.Random(seed)
    return {topic: {doc: draw.choice((0, 0, 1, 2)) for doc in draw.sample(DOCS, 20)} for topic in TOPICS}


def collection(
    conf: Conf, folder: Path, judged: Judgments, *, name: str = "tiny", private: bool = False, protocol: str = ""
) -> Path:
    """Write the collection's configuration, and its files into a folder; where its judgments are."""
    folder.mkdir(parents=True, exist_ok=True)
    qrels = folder / "qrels.txt"
    qrels.write_text("".join(f"{t} 0 {d} {g}\n" for t, docs in judged.items() for d, g in docs.items()))
    topics = "".join(json.dumps({"id": topic, "title": f"title {topic}"}) + "\n" for topic in (*TOPICS, UNJUDGED))
    (folder / "topics.jsonl").write_text(topics)
    conf(
        "protocol",
        f"{name}-plain",
        f"name: {name}-plain\ntitle: Plain\nmeasures: [nDCG, AP, P@5, Judged@5]\n{protocol}",
    )
    conf(
        "collection",
        name,
        f"name: {name}\ntitle: Tiny\nlicence: CC0\nprotocol: {name}-plain\n"
        f"editions: {{test: {{title: the test edition, private: {private!s:.5}, qrels: {{file: '{qrels}'}}}}}}\n"
        f"topics: {{reader: jsonl, file: '{folder}/topics.jsonl'}}\n",
    )
    return qrels


TEAMS = ("A", "B", "DPRL", "MIRMU", "T", "first", *(f"T{n}" for n in range(12)))


def token_of(team: str) -> str:
    """The token of a team that `enrol` added."""
    return f"token of {team}"


def enrol(lab: Lab, *teams: str) -> Lab:
    """The lab after teams were added to its roster, each with its `token_of`."""
    enrol_in(lab.folder, *teams)
    return lab


def enrol_in(folder: Path, *teams: str) -> None:
    """Adds teams to the roster of the lab in a folder."""
    journal = Journal(folder)
    with journal.locked():
        for team in teams:
            journal.append(TeamJoined(team, sha256(token_of(team).encode()), "2026-06-01T00:00:00+00:00"))


def tiny_lab(folder: Path, **settings: object) -> Lab:
    """A lab on the collection `tiny`; with private judgments, means have noise and `TEAMS` are on its roster."""
    edition: Any = settings.get("edition")
    if settings.get("private") or load_collection("tiny").edition(edition).private:
        settings = {"feedback": "noisy", **settings}
    lab = new_lab(folder, {"title": "A lab", "collection": "tiny", **settings})
    return enrol(lab, *TEAMS) if lab.private else lab


def rankings(seed: int, topics: Sequence[str] = TOPICS, depth: int = 10) -> dict[str, list[str]]:
    """Documents for each topic, best first."""
    draw = random.Random(f"run {seed}")
    return {topic: draw.sample(DOCS, depth) for topic in topics}


def run_text(ranked: Mapping[str, Iterable[str]], tag: str = "mine") -> str:
    """A TREC run."""
    lines = (
        f"{topic} Q0 {doc} {rank} {100 - rank} {tag}\n"
        for topic, docs in ranked.items()
        for rank, doc in enumerate(docs, 1)
    )
    return "".join(lines)


def run_file(path: Path, seed: int, tag: str = "mine") -> Path:
    """A file with a run of its own for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(run_text(rankings(seed), tag))
    return path


def files(folder: Path, *without: str) -> dict[str, bytes]:
    """All files below a folder with their contents, hidden ones too; `without`: top folders that are left out."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = {path.relative_to(folder).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if name.split("/")[0] not in without}
