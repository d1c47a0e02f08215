"""Configurations of collections and corpora: all faults of a file at once, and paths that begin at the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError

Conf = Callable[[str, str, str], Path]
EDITION = {"title": "x", "qrels": {"file": "q.txt"}, "topics": 2, "judgments": 3}
BASE: dict[str, object] = {
    "name": "mine",
    "title": "Mine",
    "licence": "CC0",
    "protocol": "trec_eval",
    "editions": {"first": EDITION},
    "topics": {"reader": "jsonl", "file": "t.jsonl"},
}


def faults(call: Callable[[], object]) -> list[str]:
    with pytest.raises(HarnessError) as caught:
        call()
    return str(caught.value).splitlines()


def test_all_faults_of_a_collection_come_together(conf: Conf) -> None:
    changed = {
        "name": "other",
        "title": ["a"],
        "titel": "x",
        "protocol": "trec-eval",
        "corpus": "mini-anwsers",
        "cluster": 5,
        "notes": ["fine", {"Note": "a colon"}],
        "default_edition": "second",
        "editions": {
            "first": {"title": "x", "qrels": {"file": "q", "reader": "tric"}, "topics": "2", "judgments": True},
            "broken": 5,
            "empty": {"qrels": {}, "topics": 1, "judgments": 1, "title": "y"},
        },
        "topics": {"reader": "json", "language": "eng"},
        "attributes": {"file": "q", "columns": ["a"]},
        "keys": {"file": 7, "id_colum": "a", "key_column": "b"},
    }
    kept = {key: value for key, value in BASE.items() if key != "licence"}
    path = conf("collection", "mine", json.dumps({**kept, **changed}))
    lines = faults(lambda: load_collection("mine"))
    assert [line.removeprefix(f"{path}: ").partition("; ")[0] for line in lines] == [
        "key 'titel' is unknown",
        "key 'licence' is missing",
        "key 'title' is ['a'], expected text",
        "protocol 'trec-eval' is unknown",
        "editions: first: key 'topics' is '2', expected a whole number",
        "editions: first: key 'judgments' is True, expected a whole number",
        "editions: broken: expected keys and values, found 5",
        "topics: reader 'json' is unknown",
        "attributes: key 'key' is missing",
        "attributes: key 'columns' is ['a'], expected keys and values",
        "keys: key 'id_colum' is unknown",
        "keys: key 'id_column' is missing",
        "corpus 'mini-anwsers' is unknown",
        "key 'notes': {'Note': 'a colon'} is not text",
        "key 'cluster' is 5, expected text",
        "key 'name' is 'other', expected the file's name 'mine'",
        "editions: first: reader 'tric' is unknown",
        "editions: empty: names no file",
        "topics: names no file",
        "keys: key 'file' is 7, expected text",
        "key 'default_edition': 'second' is unknown",
    ]
    assert all(line.startswith(f"{path}: ") for line in lines)


def test_all_faults_of_a_corpus_come_together(conf: Conf) -> None:
    path = conf(
        "corpus",
        "mine",
        "name: m\ntitle: t\nlicense: l\nfields: {a: titel, b: bodi}\nkeep: x\n"
        "files: [{source: nowhere, path: x}, {file: fine}, 5]\n",
    )
    lines = faults(lambda: load_corpus("mine"))
    assert [line.removeprefix(f"{path}: ").partition("; ")[0] for line in lines] == [
        "key 'license' is unknown",
        "key 'licence' is missing",
        "key 'keep' is 'x', expected a list",
        "key 'name' is 'm', expected the file's name 'mine'",
        "fields: 'titel' is unknown",
        "fields: 'bodi' is unknown",
        "source 'nowhere' is unknown",
        "expected keys and values such as source and path, found 5",
    ]


INNER = ("file", "source", "reader", "qrels", "exclusions", "order", "folder", "hub", "revision", "split")
CHANGED = ("keys", "attributes", "notes", "corpus", "cluster", "beir")
CORPUS: dict[str, object] = {"name": "mine", "title": "Mine", "licence": "CC0", "file": {"file": "c.jsonl"}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x", "jsonl", "trec_eval", "mine"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*BASE, *INNER]), inner),
    max_leaves=4,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "base", "load"), [("collection", BASE, load_collection), ("corpus", CORPUS, load_corpus)]
)
@example({"topics": [{"file": None}]})
@example({"reader": ["stacks"]})
@given(st.dictionaries(st.sampled_from([*BASE, *CHANGED, "file", "files", "reader", "fields", "keep"]), VALUES))
def test_any_values_end_in_what_is_loaded_or_in_lines(
    group: str, base: Mapping[str, object], load: Callable[[str], object], changed: Mapping[str, object]
) -> None:
    """Each fault is a line of its own that begins with the file."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        path = Path(name) / group / "mine.yaml"
        path.parent.mkdir()
        path.write_text(json.dumps({**base, **changed}))
        patch.setenv("HARNESS_CONF", name)
        try:
            load("mine")
        except HarnessError as error:
            lines = str(error).splitlines()
            assert len(lines) == len(set(lines)) > 0
            assert all(line.startswith(f"{path}: ") for line in lines)


@pytest.mark.parametrize("folder", ["plain", "linked"])
def test_paths_begin_at_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    real = tmp_path / "plain"
    (real / "collection").mkdir(parents=True)
    (real / "corpus").mkdir()
    (tmp_path / "linked").symlink_to(real)
    (real / "collection" / "q.txt").write_text("T1 0 d1 2\nT1 0 d2 0\nT2 0 d1 1\n")
    (real / "t.jsonl").write_text("".join(f'{{"id": "T{n}", "title": "x"}}\n' for n in (1, 2, 3)))
    (real / "c.jsonl").write_text('{"id": "d1"}\n')
    mapping = {**BASE, "topics": {"reader": "jsonl", "file": "../t.jsonl"}}
    (real / "collection" / "mine.yaml").write_text(json.dumps(mapping))
    corpus = "name: mine\ntitle: t\nlicence: l\nfile: {file: ../c.jsonl}\nfields: {id: id}\n"
    (real / "corpus" / "mine.yaml").write_text(corpus)
    monkeypatch.setenv("HARNESS_CONF", folder)  # itself relative to the current folder
    monkeypatch.chdir(tmp_path)
    mine = load_collection("mine")
    assert mine.qrels().to_dict() == {"T1": {"d1": 2, "d2": 0}, "T2": {"d1": 1}}
    assert mine.topics().ids() == {"T1", "T2", "T3"}
    assert [document.id for document in load_corpus("mine")] == ["d1"]
    assert load_corpus("mine").path == Path(folder) / "c.jsonl"
