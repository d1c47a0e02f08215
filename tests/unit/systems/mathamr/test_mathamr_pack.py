"""Packs of encoded posts: what is written is read, what does not fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mathamr_tools import NAMES, POST, graphs, same, text_graph
from refusals import refuses

from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write_pack
from harness.systems.mathamr.encoder.virtual import AUXILIARY, STRUCTURES, encode
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
from harness.systems.mathamr.graphs.graph import Graph

VOCABULARY = NodeVocabulary.learn([POST], size=500)
ITEM = encode(POST, VOCABULARY)


def some_posts(count: int) -> list[tuple[str, Graph]]:
    return [(f"p{number}", POST if number % 3 else text_graph(("a", "b", "c"))) for number in range(count)]


@pytest.mark.slow
@settings(max_examples=25)
@given(st.dictionaries(NAMES.filter(bool), graphs(), max_size=6), st.sampled_from(AUXILIARY))
def test_what_is_written_is_read(posts: dict[str, Graph], auxiliary: str) -> None:
    items = [(post, encode(graph, VOCABULARY, "hierarchy", auxiliary)) for post, graph in posts.items()]
    pack = Pack.memory(items)
    assert (len(pack), pack.ids) == (len(posts), tuple(posts))
    assert all(same(found, item) for found, (_, item) in zip(pack, items, strict=True))
    assert [pack.formula_ids(number) for number in range(len(pack))] == [item.formulas for _, item in items]
    assert pack.sizes().tolist() == [[len(item.nodes), len(item.source)] for _, item in items]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_file_is_what_a_pack_in_memory_is(tmp_path: Path, structure: str) -> None:
    posts, path = some_posts(20), tmp_path / "new" / "a.pack"
    assert not write_pack(path, encode_posts(posts, VOCABULARY, structure))
    on_disk, in_memory = Pack(path), Pack.memory(encode_posts(posts, VOCABULARY, structure))
    others = Pack.memory(encode_posts(posts[:19], VOCABULARY, structure))
    assert (on_disk.digest, on_disk.ids) == (in_memory.digest, in_memory.ids)
    assert on_disk.digest != others.digest
    assert all(same(one, other) for one, other in zip(on_disk, in_memory, strict=True))
    assert not on_disk[0].nodes.flags.writeable
    with pytest.raises(IndexError):
        on_disk[20]


def test_refused_posts_are_left_out_and_reported(tmp_path: Path) -> None:
    path, huge = tmp_path / "a.pack", text_graph(("a",) * 70_000)
    posts = [("fine", POST), ("huge", huge), ("fine", POST), ("", POST), ("later", POST)]
    refused = write_pack(path, encode_posts(posts, VOCABULARY), keep_going=True)
    assert [post for post, _ in refused] == ["huge", "fine", ""]
    for (_, reason), expected in zip(refused, ("more than 65,532", "unique", "is empty"), strict=True):
        assert expected in reason
        assert "\n" not in reason
    assert Pack(path).ids == ("fine", "later")
    assert all(same(item, ITEM) for item in Pack(path))
    said = "post huge: 70,000 nodes and 2 virtual ones: more than 65,532"
    refuses(said, lambda: write_pack(path, encode_posts(posts, VOCABULARY)))


@pytest.mark.parametrize(
    ("post", "formulas", "reason"),
    [
        *(("two", (name,), "formula id") for name in ("a\0b", "\ud800")),
        *((post, ITEM.formulas, "is empty, or not UTF-8") for post in ("a\0b", "\udfff", "")),
    ],
)
def test_what_does_not_fit_is_refused(post: str, formulas: tuple[str, ...], reason: str) -> None:
    refuses(f"^post .*{reason}", lambda: Pack.memory([("one", ITEM), (post, replace(ITEM, formulas=formulas))]))


def test_files_that_are_no_packs(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    write_pack(path, encode_posts(some_posts(3), VOCABULARY))
    for data in (b"x", b"SQLite format 3\0" * 100, path.read_bytes()[:-1]):
        path.write_bytes(data)
        refuses(f"^{path}: not a pack of graphs, or cut short", lambda: Pack(path))
    path.write_bytes(b"")
    for other in (path, tmp_path, tmp_path / "none.pack"):
        refuses("cannot be read", lambda: Pack(other))  # noqa: B023
    refuses("", lambda: write_pack(path / "below" / "a.pack", [("a", ITEM)]))
