"""Packs of encoded posts: what is written is read, what is damaged is told, what does not fit is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mathamr_tools import NAMES, POST, graphs, message, same, text_graph

from harness.errors import HarnessError
from harness.systems.mathamr.encoder.pack import Item, Pack, encode_posts, write
from harness.systems.mathamr.encoder.virtual import AUXILIARY, STRUCTURES, Encoded, encode
from harness.systems.mathamr.encoder.vocabulary import Vocabulary
from harness.systems.mathamr.graphs.graph import Graph

VOCABULARY = Vocabulary.learn([POST], size=500)
ITEM = encode(POST, VOCABULARY)


def some_posts(count: int) -> list[tuple[str, Graph]]:
    return [(f"p{number}", POST if number % 3 else text_graph(("a", "b", "c"))) for number in range(count)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def written(path: Path, count: int = 10) -> Path:
    write(path, encode_posts(some_posts(count), VOCABULARY), {"vocabulary": VOCABULARY.digest})
    return path


@pytest.mark.slow
@settings(max_examples=50)
@given(st.dictionaries(NAMES.filter(bool), graphs(), max_size=6), st.sampled_from(AUXILIARY))
def test_what_is_written_is_read(posts: dict[str, Graph], auxiliary: str) -> None:
    items = [(post, encode(graph, VOCABULARY, "hierarchy", auxiliary)) for post, graph in posts.items()]
    pack = Pack.memory(items, {"a": "b"})
    assert pack.ids == tuple(posts)
    assert len(pack) == len(posts)
    assert pack.meta == {"a": "b"}
    pack.verify()
    for number, (post, item) in enumerate(items):
        assert same(pack[number], item)
        assert pack.number(post) == number
        assert post in pack
        assert pack.formula_ids(number) == item.formulas
    assert all(same(found, item) for found, (_, item) in zip(pack, items, strict=True))
    assert pack.sizes().tolist() == [[len(item.nodes), len(item.source)] for _, item in items]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_file_is_what_a_pack_in_memory_is(tmp_path: Path, structure: str) -> None:
    posts = some_posts(20)
    report = write(tmp_path / "new" / "a.pack", encode_posts(posts, VOCABULARY, structure))
    on_disk, in_memory = Pack(tmp_path / "new" / "a.pack"), Pack.memory(encode_posts(posts, VOCABULARY, structure))
    assert (report.posts, report.refused) == (20, ())
    assert report.digest == on_disk.digest == in_memory.digest
    assert on_disk.ids == in_memory.ids
    assert all(same(one, other) for one, other in zip(on_disk, in_memory, strict=True))
    assert [len(item.nodes) for item in on_disk.batch([3, 1, 3])] == [
        len(on_disk[3].nodes),
        len(on_disk[1].nodes),
        len(on_disk[3].nodes),
    ]
    assert same(on_disk[-1], on_disk[19])
    assert names(tmp_path / "new") == ["a.pack"]
    assert not on_disk[0].nodes.flags.writeable
    with pytest.raises(IndexError):
        on_disk[20]


def test_the_same_posts_give_the_same_bytes_and_others_another_digest(tmp_path: Path) -> None:
    first, second, third = (
        written(tmp_path / name, count) for name, count in (("a.pack", 9), ("b.pack", 9), ("c.pack", 8))
    )
    assert first.read_bytes() == second.read_bytes()
    assert Pack(first).digest == Pack(second).digest != Pack(third).digest
    assert Pack(first).meta == {"vocabulary": VOCABULARY.digest}
    assert Pack(first).nbytes == first.stat().st_size


def test_a_pack_travels_to_another_process(tmp_path: Path) -> None:
    for pack in (Pack(written(tmp_path / "a.pack")), Pack.memory([("x", ITEM)])):
        sent = pickle.dumps(pack)
        assert len(sent) < 2000
        there = pickle.loads(sent)  # noqa: S301
        assert there.ids == pack.ids
        assert same(there[0], pack[0])


def test_a_pack_of_nothing() -> None:
    pack = Pack.memory([])
    assert (len(pack), pack.ids, list(pack), pack.meta) == (0, (), [], {})


def test_a_post_takes_what_its_integers_take(tmp_path: Path) -> None:
    pack = Pack(written(tmp_path / "a.pack", 2))
    longer = Pack(written(tmp_path / "b.pack", 5))  # three more: two of the long post, one of the short one
    short = encode(text_graph(("a", "b", "c")), VOCABULARY)
    of = [2 * len(item.nodes) + 6 * len(item.source) + 3 * len(item.vectors) for item in (ITEM, short)]
    grown = longer.nbytes - pack.nbytes
    assert grown <= 2 * of[0] + of[1] + 3 * 64


# ---- refused ------------------------------------------------------------------------------------------------------


def large() -> Graph:
    return text_graph(("a",) * 70_000)


def test_a_post_too_large_is_refused_by_name_and_the_file_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pack")
    before = path.read_bytes()
    posts = [("fine", POST), ("huge", large()), ("later", POST)]
    with pytest.raises(HarnessError, match=r"post huge: 70,000 nodes and 2 virtual ones: more than 65,532") as error:
        write(path, encode_posts(posts, VOCABULARY))
    message(error)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["a.pack"]


def test_refused_posts_are_left_out_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    empty = Graph((), b"", (), 0, (), ())
    posts = [("fine", POST), ("huge", large()), ("empty", empty), ("fine", POST), ("", POST), ("later", POST)]
    report = write(path, encode_posts(posts, VOCABULARY), keep_going=True)
    assert report.posts == 2
    assert [post for post, _ in report.refused] == ["huge", "empty", "fine", ""]
    reasons = [reason for _, reason in report.refused]
    for reason, expected in zip(reasons, ("more than 65,532", "no nodes", "unique", "is empty"), strict=True):
        assert expected in reason
        assert "\n" not in reason
    pack = Pack(path)
    assert pack.ids == ("fine", "later")
    assert all(same(item, ITEM) for item in pack)


def small(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint16)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes": np.zeros(70_000, np.uint16)}, "70,000 nodes, more than 65,532"),
        ({"nodes": ITEM.nodes.astype(np.int64)}, "uint16"),
        ({"types": ITEM.types.astype(np.int64)}, "uint8"),
        ({"target": ITEM.target[:-1]}, "differ in length"),
        ({"types": ITEM.types[:-1]}, "differ in length"),
        ({"nodes": ITEM.nodes[:-1]}, "names node 18, but has 18"),
        ({"vectors": ITEM.vectors + np.uint16(1)}, "names node 19, but has 19"),
        ({"content": 20}, "more content"),
        ({"content_edges": 99}, "more content"),
        ({"formulas": ("f",) * 7}, "7 formulas, but 6 vectors"),
        ({"formulas": ("a\0b",)}, "formula id"),
        ({"formulas": ("\ud800",)}, "formula id"),
        ({"types": ITEM.types + np.uint8(1)}, "vector of type 3"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(HarnessError, match=reason) as error:
        Pack.memory([("one", ITEM), ("two", replace(ITEM, **change))])  # type: ignore[arg-type]
    assert message(error).startswith("post two: ")


@pytest.mark.parametrize("post", ["a\0b", "\udfff", ""])
def test_ids_that_cannot_be_kept_are_refused(post: str) -> None:
    with pytest.raises(HarnessError, match="is empty, or not UTF-8") as error:
        Pack.memory([(post, ITEM)])
    message(error)


def test_an_unknown_option_is_told_before_any_post_is_read() -> None:
    def posts() -> Iterator[tuple[str, Graph]]:
        raise AssertionError("was read")
        yield

    with pytest.raises(HarnessError, match="auxiliary edges 'round' unknown"):
        encode_posts(posts(), VOCABULARY, "hierarchy", "round")


def test_what_stops_while_writing_leaves_no_file(tmp_path: Path) -> None:
    def items() -> Iterator[Item]:
        yield "a", ITEM
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.pack", items())
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError) as error:
        write(tmp_path / "file" / "a.pack", [("a", ITEM)])
    message(error)


# ---- damaged ------------------------------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pack", 3)
    data = path.read_bytes()
    for end in [*range(0, len(data), 7), len(data) - 1]:
        path.write_bytes(data[:end])
        with pytest.raises(HarnessError, match=r"cut short|damaged") as error:
            Pack(path)
        assert message(error).startswith(f"{path}: ")
    path.write_bytes(data + b"\0")
    with pytest.raises(HarnessError, match="damaged"):
        Pack(path)


def test_a_bit_turned_anywhere_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pack", 3)
    data = path.read_bytes()
    expected = list(Pack.memory(encode_posts(some_posts(3), VOCABULARY)))

    def read() -> list[Encoded]:
        pack = Pack(path)
        pack.verify()
        return list(pack)

    assert all(same(one, other) for one, other in zip(read(), expected, strict=True))
    for at in range(0, len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        with pytest.raises(HarnessError) as error:
            read()
        assert message(error).startswith(f"{path}: ")


def test_a_damaged_post_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pack", 3)
    data = bytearray(path.read_bytes())
    data[250] ^= 1
    path.write_bytes(data)
    pack = Pack(path)
    with pytest.raises(HarnessError, match=r"post p1 of this pack of graphs is damaged"):
        list(pack)
    with pytest.raises(HarnessError, match=r"post p1 of this pack"):
        pack.formula_ids(1)
    assert same(pack[2], ITEM)
    assert len(pack[0].nodes) == 5
    with pytest.raises(HarnessError, match="damaged"):
        pack.verify()


@pytest.mark.parametrize("data", [b"", b"x", b"SQLite format 3\0" * 100, b"MathAMR\x01" * 50])
def test_other_files_are_no_packs(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.pack"
    path.write_bytes(data)
    with pytest.raises(HarnessError, match="pack of graphs") as error:
        Pack(path)
    message(error)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file"):
        Pack(tmp_path / "none.pack")
    with pytest.raises(HarnessError, match="directory"):
        Pack(tmp_path)
    with pytest.raises(HarnessError, match="has no post 'p77'"):
        Pack.memory([("x", ITEM)]).number("p77")
