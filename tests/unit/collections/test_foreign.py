"""Readers of other packages: what they give is read as by ours; each fault of theirs is one line that names them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from case_tables import DATA, literals
from refusals import refusal as message

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError

READERS = (DATA / "collections" / "foreign_readers.py.txt").read_text()
COLLECTION = """
name: theirs
title: T
licence: CC0
protocol: trec_eval
editions:
  first:
    title: E
    qrels: {{reader: "{judgments}", file: j.txt}}
    topics: 0
    judgments: 0
topics: {{reader: "{topics}", file: t.txt, language: ces}}
"""
CORPUS = "name: theirs\ntitle: T\nlicence: CC0\nreader: {reader}\nfiles: [{{file: d1.txt}}, {{file: d2.txt}}]\n"
MODULE = "readers_of_theirs"


@pytest.fixture
def theirs(
    conf: Callable[[str, str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    importable: Callable[[Path], None],
) -> Callable[..., Collection]:
    """A function that makes a collection and a corpus with some readers of a module, whose text it takes too."""
    importable(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which would stay for another text of the same size

    def make(
        topics: str = "topics", judgments: str = "judgments", documents: str = "documents", text: str = ""
    ) -> Collection:
        (tmp_path / f"{MODULE}.py").write_text(READERS + text)
        monkeypatch.delitem(sys.modules, MODULE, raising=False)
        named = {"topics": f"{MODULE}:{topics}", "judgments": f"{MODULE}:{judgments}"}
        folder = conf("collection", "theirs", COLLECTION.format(**named)).parent
        (folder / "t.txt").write_text("T1 one\nT2 two words\n")
        (folder / "j.txt").write_text("")
        folder = conf("corpus", "theirs", CORPUS.format(reader=f"{MODULE}:{documents}")).parent
        (folder / "d1.txt").write_text("a first\nb second\n")
        (folder / "d2.txt").write_text("c third\n")
        return load_collection("theirs")

    return make


@pytest.mark.parametrize("reader", ["topics", "listed"])
def test_topics(theirs: Callable[..., Collection], reader: str) -> None:
    topics = theirs(topics=reader).topics()
    assert [(t.id, t.title, t.language, Path(t.attributes["path"]).name) for t in topics] == [
        ("T1", "one", "ces", "t.txt"),
        ("T2", "two words", "ces", "t.txt"),
    ]


@pytest.mark.parametrize("reader", ["judgments", "made"])
def test_judgments(theirs: Callable[..., Collection], reader: str) -> None:
    qrels = theirs(judgments=reader).qrels()
    pairs = zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    assert [(qrels.topics[topic], doc, grade) for topic, doc, grade in pairs] == [
        ("T1", b"a", 2.0),
        ("T1", b"b", 0.5),
        ("T2", b"c", 1.0),
    ]
    assert qrels.edition == "first"


def test_the_checksum_of_judgments_is_of_what_the_reader_gives(theirs: Callable[..., Collection]) -> None:
    """The same file read as other judgments must not pass for the same ones."""
    sums = []
    for grade in (0, 1, 1):
        collection = theirs("topics", "own", text=f"def own(*given):\n    return {{'T1': {{'a': {grade}}}}}\n")
        sums.append(collection.qrels().sha256)
    assert sums[0] != sums[1] == sums[2] != ""


def test_documents(theirs: Callable[..., Collection]) -> None:
    theirs()
    found = list(load_corpus("theirs"))
    assert [(d.id, d.body, d.formulas[0].id, d.columns) for d in found] == [
        ("a", "first", "a.1", {"file": "d1.txt"}),
        ("b", "second", "b.1", {"file": "d1.txt"}),
        ("c", "third", "c.1", {"file": "d2.txt"}),
    ]
    assert load_corpus("theirs") == load_corpus("theirs")
    assert repr(load_corpus("theirs")) == repr(load_corpus("theirs"))


def test_nothing_is_imported_before_something_is_read(theirs: Callable[..., Collection]) -> None:
    collection = theirs(text="raise RuntimeError\n")
    corpus = load_corpus("theirs")
    assert (collection.state(), collection.files(), corpus.state(), corpus.files()) == ("here", [], "here", [])
    assert MODULE not in sys.modules
    with pytest.raises(HarnessError, match="RuntimeError"):
        next(iter(corpus))


def test_a_reader_that_is_not_installed_has_no_digest(theirs: Callable[..., Collection], tmp_path: Path) -> None:
    theirs()
    corpus = load_corpus("theirs")
    (tmp_path / f"{MODULE}.py").rename(tmp_path / "absent_readers.txt")
    absent = replace(corpus, reader=replace(corpus.reader, module="absent_readers_of_theirs"))
    assert message(absent.digest).endswith("module 'absent_readers_of_theirs' is not installed, or not as files")


def test_readers_that_fail(theirs: Callable[..., Collection], tmp_path: Path) -> None:
    module = tmp_path / f"{MODULE}.py"

    def place(text: str) -> str:
        lines = [number for number, line in enumerate(module.read_text().splitlines(), 1) if text in line]
        return f"({module}, line {lines[-1]})"

    collection = theirs("broken", "ours", "late")
    topics = Path(collection.where).parent / "t.txt"
    said = f"KeyError: 'absent' {place('return {}')}"
    assert message(collection.topics) == f"{topics}: reader {MODULE}:broken: {said}"
    assert message(collection.qrels) == "file.txt:7: no such line"
    wanted = "gave an item of type Topic, expected harness.collections.corpus.Document"
    assert message(lambda: list(load_corpus("theirs"))) == f"corpus theirs: reader {MODULE}:late: {wanted}"
    said = f"ValueError: half-way {place('half-way')}"
    assert message(theirs("late").topics) == f"{topics}: reader {MODULE}:late: {said}"
    assert message(theirs("absent").topics) == f"{topics}: reader {MODULE}:absent: {MODULE} has no 'absent'"
    text = Path(theirs("topics").where).read_text()
    Path(collection.where).write_text(text.replace(f"{MODULE}:topics", "theirs_that_are_nowhere:topics"))
    said = "module 'theirs_that_are_nowhere' is not installed"
    assert message(load_collection("theirs").topics) == f"{topics}: reader theirs_that_are_nowhere:topics: {said}"


@pytest.mark.parametrize("name", ["a:b:c", "a b:c", ":topics", "a.:b", "a:", "a/b:c", "json_l"])
def test_what_names_no_function(theirs: Callable[..., Collection], name: str) -> None:
    where = Path(theirs().where)
    text = where.read_text()
    for part in ("topics", "judgments"):
        where.write_text(text.replace(f"{MODULE}:{part}", name))
        assert f"reader {name!r} is unknown; " in message(lambda: load_collection("theirs"))
    where = where.parents[1] / "corpus" / "theirs.yaml"
    where.write_text(where.read_text().replace(f"{MODULE}:documents", f'"{name}"'))
    assert f"reader {name!r} is unknown; " in message(lambda: load_corpus("theirs"))


@pytest.mark.parametrize(("body", "fault"), literals("collections/foreign_wrong_topics"))
def test_wrong_topics(theirs: Callable[..., Collection], body: str, fault: str) -> None:
    collection = theirs(topics="own", text=f"def own(data, path, language):\n    {body}\n")
    path = Path(collection.where).parent / "t.txt"
    assert message(collection.topics) == f"{path}: reader {MODULE}:own: {fault}"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return 5", "gave int, expected a harness.data.trec.Qrels, or topic -> document -> grade"),
        ("return {}", "gave no judgments"),
        ("return {'T1': {'a': float('inf')}}", "topic 'T1', document 'a': grade inf is not a finite number"),
        ("return {'T1': {'a': 'x'}}", "topic 'T1', document 'a': grade 'x' is not a number"),
    ],
)
def test_wrong_judgments(theirs: Callable[..., Collection], body: str, fault: str) -> None:
    collection = theirs(judgments="own", text=f"def own(data, path, edition):\n    {body}\n")
    path = Path(collection.where).parent / "j.txt"
    assert message(collection.qrels) == f"{path}: reader {MODULE}:own: {fault}"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return 5", "gave int, expected an iterable of Document"),
        ("return ['a']", "gave an item of type str, expected harness.collections.corpus.Document"),
        ("yield Document('a')\n    yield Document('a')", "gave document 'a' twice"),
        ("yield Document('')", "document id '' is empty or holds blanks or unprintable characters"),
        ("yield Document('a', body=b'x')", "document 'a': body is b'x', expected text"),
        ("yield Document('a', columns={'n': 1})", "document 'a': columns is {'n': 1}, expected names and texts"),
    ],
)
def test_wrong_documents(theirs: Callable[..., Collection], body: str, fault: str) -> None:
    theirs(documents="own", text=f"def own(paths):\n    {body}\n")
    assert message(lambda: list(load_corpus("theirs"))) == f"corpus theirs: reader {MODULE}:own: {fault}"
