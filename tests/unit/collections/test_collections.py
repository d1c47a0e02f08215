from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from case_tables import literals
from refusals import refusal as message
from trec_tools import message as messages

from harness.collections.corpus import Corpus, Document
from harness.collections.files import read_keys
from harness.collections.load import load_collection
from harness.data.trec import Run
from harness.errors import FormatError
from harness.papers.crossmath.readers import words_only

Conf = Callable[[str, str, str], Path]
QRELS = "T1 0 d1 2\nT1 0 d2 0\nT2 0 d1 1\n"
TOPICS = '{"id": "T1", "title": "one"}\n{"id": "T2", "title": "two"}\n{"id": "T3", "title": "three"}\n'
BASE = {
    "name": "mine",
    "title": "Mine",
    "licence": "CC0",
    "protocol": "trec_eval",
    "editions": {"first": {"title": "the only one", "qrels": {"file": "QRELS"}, "topics": 2, "judgments": 3}},
    "topics": {"reader": "jsonl", "file": "TOPICS"},
}


@pytest.fixture
def make(conf: Conf, tmp_path: Path) -> Callable[..., Path]:
    """A function that writes the collection `mine`, with changed keys; gives its configuration's path."""
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "topics.jsonl").write_text(TOPICS)

    def write(**changed: object) -> Path:
        # JSON is YAML.
        text = json.dumps({key: value for key, value in {**BASE, **changed}.items() if value != "DROP"})
        for name, file in (("QRELS", "qrels.txt"), ("TOPICS", "topics.jsonl")):
            text = text.replace(f'"{name}"', json.dumps(str(tmp_path / file)))
        return conf("collection", "mine", text)

    return write


def test_a_collection_of_the_users(make: Callable[..., Path], tmp_path: Path) -> None:
    path = make(notes=["read this"])
    mine = load_collection("mine")
    assert (mine.title, mine.licence, mine.protocol, mine.where) == ("Mine", "CC0", "trec_eval", str(path))
    assert mine.notes == ("read this",)
    assert mine.default_edition == "first"
    assert mine.files() == []
    assert mine.state() == "here"
    assert mine.keys() is None
    assert mine.topics().ids() == {"T1", "T2", "T3"}
    qrels = mine.qrels()
    assert qrels.edition == "first"
    assert qrels.to_dict() == {"T1": {"d1": 2, "d2": 0}, "T2": {"d1": 1}}
    assert qrels.sha256 == hashlib.sha256(QRELS.encode()).hexdigest()
    scores = mine.scorer(measures=("P@1", "RR"))(Run.from_dict("r", {"T1": {"d2": 2.0, "d1": 1.0}}))
    assert scores.values.tolist() == [[0.0, 0.5], [0.0, 0.0]]
    assert (scores.collection, scores.edition, scores.protocol.name) == ("mine", "first", "trec_eval")


EDITION = {"title": "x", "qrels": {"file": "QRELS"}, "topics": 2, "judgments": 3}


@pytest.mark.parametrize(("changed", "fault"), literals("collections/collections_faults_of_a_configuration"))
def test_faults_of_a_configuration(make: Callable[..., Path], changed: Mapping[str, object], fault: str) -> None:
    path = make(**changed)
    assert messages(lambda: load_collection("mine")).startswith(f"{path}: {fault}".replace("PATH", str(path)))


@pytest.mark.parametrize(("changed", "fault"), literals("collections/collections_faults_of_topics"))
def test_faults_of_topics(make: Callable[..., Path], tmp_path: Path, changed: Mapping[str, object], fault: str) -> None:
    path = make(**changed)
    expected = fault.replace("PATH", str(path)).replace("QRELS", str(tmp_path / "qrels.txt"))
    assert message(lambda: load_collection("mine").topics()).startswith(expected)


def test_attributes_of_several_files(make: Callable[..., Path], tmp_path: Path) -> None:
    """Each file has its own topics and columns; where two speak of one topic, both count."""
    for name, text in (("a", "id,Level\nT1,low\nT2,high\n"), ("b", "Nr,Area\nT2,algebra\nT3,logic\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    files = [
        {"file": str(tmp_path / "a.csv"), "key": "id", "columns": {"difficulty": "Level"}},
        {"file": str(tmp_path / "b.csv"), "key": "Nr", "columns": {"area": "Area"}},
    ]
    make(attributes=files)
    assert [dict(topic.attributes) for topic in load_collection("mine").topics()] == [
        {"difficulty": "low"},
        {"difficulty": "high", "area": "algebra"},
        {"area": "logic"},
    ]
    make(attributes=files[0])
    assert [dict(topic.attributes) for topic in load_collection("mine").topics()][2] == {}


def test_an_unknown_edition_is_answered_with_the_nearest(make: Callable[..., Path]) -> None:
    make()
    mine = load_collection("mine")
    expected = "collection mine: edition 'frist' is unknown; did you mean 'first'?"
    assert message(lambda: mine.edition("frist")) == expected
    assert message(lambda: mine.qrels("frist")) == expected
    assert message(lambda: mine.scorer("frist")) == expected


@pytest.mark.parametrize(("topics", "judgments"), [(3, 3), (2, 4), (77, 39124)])
def test_judgments_are_counted(make: Callable[..., Path], tmp_path: Path, topics: int, judgments: int) -> None:
    path = make(editions={"first": {**EDITION, "topics": topics, "judgments": judgments}})
    assert message(load_collection("mine").qrels) == (
        f"{tmp_path / 'qrels.txt'}: 2 topics and 3 judgments; {path} says {topics} and {judgments}"
    )


def test_faults_of_judgments_name_file_and_line(make: Callable[..., Path], tmp_path: Path) -> None:
    make()
    (tmp_path / "qrels.txt").write_text("T1 0 d1 2\nT1 0 d1 x\n")
    with pytest.raises(FormatError) as caught:
        load_collection("mine").qrels()
    path = tmp_path / "qrels.txt"
    assert str(caught.value).splitlines() == [
        f"{path}:2: grade 'x' is not a finite number",
        f"{path}:2: document 'd1' of topic 'T1' is judged on line 1 already",
    ]


def test_a_protocol_that_maps_documents_needs_a_map(make: Callable[..., Path]) -> None:
    make()
    mine = load_collection("mine")
    assert message(lambda: mine.scorer(None, "arqmath-task2")) == (
        "collection mine: protocol arqmath-task2 maps documents to keys, and the collection has no map; "
        "give it with --keys FILE, or say --keys none if the runs name keys; "
        "'harness run' needs a corpus whose ids are keys or that has keys"
    )
    run = Run.from_dict("r", {"T1": {"x1": 2.0, "x2": 1.0}})
    scores = mine.scorer(None, "arqmath-task2", keys={"x1": "d1", "x2": "d1"}, measures=("P@1", "nDCG"))(run)
    assert scores.values[0].tolist() == [1.0, 1.0]
    assert scores.counts["duplicates removed"] == 1


@pytest.mark.parametrize(
    ("sources", "state"),
    [
        ((), "here"),
        (("net",), "fetchable"),
        (("net", "hand"), "manual download: ask the organisers"),
        (("hand", "net"), "manual download: ask the organisers"),
    ],
)
def test_the_state_is_the_worst_of_all_files(
    make: Callable[..., Path], conf: Conf, sources: tuple[str, ...], state: str
) -> None:
    files = f"files: {{q.txt: {{sha256: '{'0' * 64}', size: 1}}}}"
    conf("source", "net", f"title: x\nlicence: y\nurl: 'http://x/y'\n{files}\n")
    conf("source", "hand", f"title: x\nlicence: y\nby_hand: ask the organisers\n{files}\n")
    fetched = {name: {**EDITION, "qrels": {"source": name, "path": "q.txt"}} for name in sources}
    make(editions={"first": EDITION, **fetched})
    assert load_collection("mine").state() == state
    assert [file.path for file in load_collection("mine").files()] == ["q.txt"] * len(sources)


def test_formulas_are_mapped_to_visual_ids_by_the_collection_or_by_the_caller() -> None:
    mini = load_collection("mini-task2")
    keys = mini.keys()
    assert keys
    topic, judged = next(iter(mini.qrels().to_dict().items()))
    best = max(judged, key=lambda key: judged[key])
    formula = next(name for name, key in keys.items() if key == best)
    run = Run.from_dict("r", {topic: {formula: 1.0}})
    assert mini.scorer(measures=("P@1",))(run).column("P@1")[0] == 1.0
    # Without a map the formula is its own key, and no judgment names it.
    assert mini.scorer(measures=("P@1",), keys={})(run).column("P@1")[0] == 0.0


# Maps of keys


def keys_of(tmp_path: Path, name: str, data: str | bytes) -> dict[str, str]:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_keys(path, "id", "visual")


@pytest.mark.parametrize(("name", "data"), literals("collections/collections_keys_are_read"))
def test_keys_are_read(tmp_path: Path, name: str, data: str | bytes) -> None:
    assert keys_of(tmp_path, name, data) == {"1": "7", "2": "8"}


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        *literals("collections/collections_faults_of_keys_name_the_line"),
        ("k.tsv", "id\tvisual\tid\n1\t7\t1\n", ":1: column 'id' is there 2 times"),
        ("k.jsonl", "[" * 100_000, ":1: expected a JSON object with 'id' and 'visual'"),
    ],
)
def test_faults_of_keys_name_the_line(tmp_path: Path, name: str, data: str, fault: str) -> None:
    assert message(lambda: keys_of(tmp_path, name, data)).startswith(f"{tmp_path / name}{fault}")


def test_a_missing_file_of_keys_is_named(tmp_path: Path) -> None:
    assert message(lambda: read_keys(tmp_path / "k.tsv", "a", "b")) == f"{tmp_path / 'k.tsv'}: no such file"


# Corpora


def corpus_of(tmp_path: Path, text: str | bytes, fields: Mapping[str, str] | None = None) -> Corpus:
    path = tmp_path / "c.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    mapped = fields or {"id": "id", "name": "title", "text": "body", "more": "body", "tags": "tags"}
    return Corpus("c", "C", "CC0", path, tuple(mapped.items()))


def test_ids_of_formulas_are_as_long_as_those_of_a_run(tmp_path: Path) -> None:
    fields = {"id": "id", "formulas": "formulas"}
    for name, visual, said in (
        ("f" * 255, "v" * 255, ""),
        ("f" * 256, "v", "formula id of 256 bytes, at most 255"),
        ("f", "ž" * 128, "visual id of 256 bytes, at most 255"),
    ):
        line = f'{{"id": "d", "formulas": [{{"id": "{name}", "latex": "x", "visual_id": "{visual}"}}]}}'
        corpus = corpus_of(tmp_path, f"{line}\n", fields)
        if said:
            assert message(partial(list, corpus)) == f"{corpus.path}:1: {said}"
        else:
            assert [document.id for document in corpus] == ["d"]


def test_documents_of_a_corpus(tmp_path: Path) -> None:
    text = (
        '{"id": "d1", "name": "A", "text": "b", "more": ["c", "d"], "tags": ["x", "y z"], "other": 1}\n\n'
        '{"id": 2, "text": null}\n{"id": "d3", "text": 5, "tags": "u v"}\n'
    )
    corpus = corpus_of(tmp_path, text)
    expected = [Document("d1", "A", "b c d", ("x", "y", "z")), Document("2"), Document("d3", body="5", tags=("u", "v"))]
    assert list(corpus) == expected
    assert list(corpus) == expected
    assert corpus.digest() == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        *literals("collections/collections_faults_of_a_corpus_name_the_line"),
        ("[" * 100_000, "not a document: not JSON: nested too deeply"),
    ],
)
def test_faults_of_a_corpus_name_the_line(tmp_path: Path, line: str | bytes, fault: str) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    corpus = corpus_of(tmp_path, b'{"id": "d0"}\n\n' + data)
    assert message(lambda: list(corpus)).startswith(f"{corpus.path}:3: {fault}")


# Translations


@pytest.mark.parametrize(
    ("text", "words"),
    literals("collections/collections_letters_outside_formulas"),
)
def test_letters_outside_formulas(text: str, words: str) -> None:
    assert words_only(text) == words
