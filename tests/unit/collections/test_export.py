"""Exported collections: read back by the harness, ir_datasets and PyTerrier; nothing private; whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from case_tables import literals
from hypothesis import given
from hypothesis import strategies as st

from harness import load_collection, load_corpus
from harness.collections.collection import Collection
from harness.collections.corpus import Corpus, CorpusReader, Document
from harness.collections.files import read_topics
from harness.collections.load import local_collection
from harness.collections.readers import beir, trec_documents
from harness.collections.writers.contents import body, contents, json_line
from harness.collections.writers.folder import export
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Qrels, read_qrels
from harness.errors import HarnessError
from harness.experiments.task import task

MINI = ("mini-task1", "mini-task2", "mini-theorems")
SOME = ("mini-theorems", *(pytest.param(name, marks=pytest.mark.slow) for name in MINI[:2]))


def exported(name: str, form: str, folder: Path) -> Path:
    found = load_collection(name)
    export(found, load_corpus(found.corpus), form, folder)
    return folder


def documents_of(folder: Path) -> list[Document]:
    return list(Corpus("read", "", "", folder / "documents.trec", reader=trec_documents.DOCUMENTS))


def own(documents: list[Document], qrels: Qrels, topics: tuple[Topic, ...], tmp: Path) -> tuple[Collection, Corpus]:
    """A collection and a corpus of these values."""
    file = tmp / "own-qrels.txt"
    file.write_text("q1 0 d1 1\n", encoding="utf-8")

    class Own(Collection):
        def qrels(self, edition: str | None = None) -> Qrels:
            return qrels

        def topics(self) -> Topics:
            return Topics(topics)

    plain = local_collection(file)
    corpus = Corpus(
        "own", "Own", "CC0", file, reader=CorpusReader("own", lambda *_: (((file, 1), each) for each in documents))
    )
    return Own(**{name: getattr(plain, name) for name in plain.__dataclass_fields__}), corpus


# ---- what we read ourselves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["beir", "mteb"])
@pytest.mark.parametrize("name", MINI)
def test_beir_is_read_back(tmp_path: Path, name: str, form: str) -> None:
    files = beir.in_folder(exported(name, form, tmp_path / "out"), name)
    found = load_collection(name)
    corpus = load_corpus(found.corpus)
    read = [document for _, document in beir.DOCUMENTS.read(replace(corpus, sources=files.corpus), {})]  # type: ignore[arg-type]
    assert [(d.id, d.title, d.body) for d in read] == [(d.id, d.title, body(d)) for d in corpus]
    qrels = beir.qrels(files, "official")
    if name == "mini-task2":
        keys = found.keys() or {}
        assert qrels.to_dict() == {
            topic: {doc: grades[key] for doc, key in keys.items() if key in grades}
            for topic, grades in found.qrels().to_dict().items()
        }
    else:
        assert qrels.to_dict() == found.qrels().to_dict()
    topics = beir.topics(files, qrels.topics).by_id()
    assert set(topics) == found.topics().ids()
    for topic in found.topics():
        expected = (
            f"${topic.formulas[0].latex}$" if name == "mini-task2" else f"{topic.title}\n{topic.body}".rstrip("\n")
        )
        assert topics[topic.id].title == expected


@pytest.mark.parametrize("name", MINI)
def test_trec_is_read_back(tmp_path: Path, name: str) -> None:
    folder = exported(name, "trec", tmp_path / "out")
    found = load_collection(name)
    read = [(each.id, each.title, each.body.split()) for each in documents_of(folder)]
    assert read == [(each.id, " ".join(each.title.split()), body(each).split()) for each in load_corpus(found.corpus)]
    topics = read_topics(folder / "topics.trec")
    assert [(t.id, t.title.split(), t.body.split()) for t in topics] == [
        (t.id, t.title.split(), t.body.split()) for t in found.topics()
    ]
    assert read_qrels(folder / "qrels.txt").to_dict() == found.qrels().to_dict()
    assert (folder / "keys.tsv").is_file() == (name == "mini-task2")


def test_exported_keys_give_the_same_scores(tmp_path: Path) -> None:
    """The judgments and keys of a TREC folder score a run of formulas as the collection does."""
    from harness.collections.files import read_keys
    from harness.experiments.evaluate import evaluate

    folder = exported("mini-task2", "trec", tmp_path / "out")
    run = "runs/mini/mini-task2/overlap.run"
    keys = read_keys(folder / "keys.tsv", "id", "key")
    again = task(local_collection(folder / "qrels.txt"), protocol="arqmath-task2", keys=keys)
    one, two = (evaluate(each, run).scores[0] for each in (task("mini-task2"), again))
    assert one.topics == two.topics
    np.testing.assert_array_equal(one.values, two.values)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(TEXT, TEXT)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, title: str, text: str) -> None:
    tmp = tmp_path_factory.mktemp("any")
    parts = own(
        [Document("d1", title, text), Document("d2", "t", "x")],
        Qrels.from_dict("given", {"q1": {"d1": 1}}),
        (Topic("q1", title or "q", text),),
        tmp,
    )
    export(*parts, "beir", tmp / "beir")
    files = beir.in_folder(tmp / "beir", "any")
    rows = [row for _, _, row in beir.rows(files.corpus)]
    assert [(row["title"], row["text"]) for row in rows] == [(title, text), ("t", "x")]
    for line in ((tmp / "beir" / "corpus.jsonl").read_text(encoding="utf-8")).splitlines():
        json.loads(line)
    export(*parts, "trec", tmp / "trec")
    found = documents_of(tmp / "trec")
    assert [(each.title, each.body.split()) for each in found] == [
        (" ".join(title.split()), text.split()),
        ("t", ["x"]),
    ]


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    assert json_line({"text": "\ud835 x"}) == '{"text": "\\ud835 x"}\n'


# ---- what other libraries read ----------------------------------------------------------------------------------


class Download:
    """A file, as ir_datasets passes it to its readers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def path(self, force: bool = True) -> str:
        return str(self._path)

    @contextmanager
    def stream(self) -> Iterator[io.BufferedReader]:
        with self._path.open("rb") as stream:
            yield stream


@pytest.mark.parametrize("name", SOME)
def test_ir_datasets_reads_beir(tmp_path: Path, name: str) -> None:
    pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")
    from ir_datasets.datasets import beir as theirs
    from ir_datasets.formats import GenericQuery

    folder = exported(name, "beir", tmp_path / "out")
    found = load_collection(name)
    read = theirs.BeirDocs(name, Download(folder / "corpus.jsonl"), theirs.BeirTitleDoc)._docs_iter()
    assert [(d.doc_id, d.title, d.text) for d in read] == [(d.id, d.title, body(d)) for d in load_corpus(found.corpus)]
    queries = theirs.BeirQueries(name, Download(folder / "queries.jsonl"), GenericQuery).queries_iter()
    kept = contents(found, load_corpus(found.corpus))
    assert [(q.query_id, q.text) for q in queries] == [(t.id, kept.query(t)) for t in found.topics()]
    rows = theirs.BeirQrels(Download(folder / "qrels" / "test.tsv"), {}).qrels_iter()
    judged = [(row.query_id, row.doc_id, row.relevance) for row in rows]
    ours = beir.qrels(beir.in_folder(folder, name), "official").to_dict()
    assert judged == [(topic, doc, grade) for topic, docs in ours.items() for doc, grade in docs.items()]


@pytest.mark.parametrize("name", SOME)
def test_ir_datasets_reads_trec(tmp_path: Path, name: str) -> None:
    pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")
    from ir_datasets.formats import TrecDocs, TrecQrels, TrecQueries

    folder = exported(name, "trec", tmp_path / "out")
    found = load_collection(name)
    expected = [(d.id, d.title.split(), body(d).split()) for d in load_corpus(found.corpus)]
    fields = list(TrecDocs(Download(folder / "documents.trec"), parser="sax")._docs_iter(folder / "documents.trec"))
    assert [(d.doc_id, d.title.split(), d.body.split()) for d in fields] == expected
    whole = list(TrecDocs(Download(folder / "documents.trec"))._docs_iter(folder / "documents.trec"))
    assert [(d.doc_id, d.text.split()) for d in whole] == [(name, [*title, *text]) for name, title, text in expected]
    queries = TrecQueries(Download(folder / "topics.trec")).queries_iter()
    assert [(q.query_id, q.title, q.description) for q in queries] == [
        (t.id, " ".join(t.title.split()), " ".join(t.body.split())) for t in found.topics()
    ]
    rows = TrecQrels(Download(folder / "qrels.txt"), {}).qrels_iter()
    ours = found.qrels().to_dict()
    assert [(row.query_id, row.doc_id, row.relevance) for row in rows] == [
        (topic, doc, grade) for topic, docs in ours.items() for doc, grade in docs.items()
    ]


@pytest.mark.slow
def test_pyterrier_reads_trec(tmp_path: Path) -> None:
    io_ = pytest.importorskip("pyterrier.io", reason="python-terrier is not installed")
    folder = exported("mini-task1", "trec", tmp_path / "out")
    found = load_collection("mini-task1")
    topics = io_.read_topics(str(folder / "topics.tsv"), format="singleline")
    kept = contents(found, load_corpus("mini-answers"))
    assert list(zip(topics.qid, topics["query"], strict=True)) == [
        (t.id, " ".join(kept.query(t).split())) for t in found.topics()
    ]
    qrels = io_.read_qrels(str(folder / "qrels.txt"))
    assert (
        Qrels.from_frame(
            "official", qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
        ).to_dict()
        == found.qrels().to_dict()
    )


# ---- limits -----------------------------------------------------------------------------------------------------


def private(conf: Callable[[str, str, str], Path], **more: str) -> Collection:
    text = f"""
name: secret
title: Secret
licence: CC0
protocol: arqmath-task1
corpus: mini-answers
editions:
  hidden: {{title: hidden, qrels: {{embedded: qrels/mini-task1.txt}}, private: true}}
  {more.get("open", "")}
topics: {{reader: jsonl, embedded: topics/mini-task1.eng.jsonl}}
"""
    conf("collection", "secret", text)
    return load_collection("secret")


def test_private_judgments_are_never_exported(tmp_path: Path, conf: Callable[[str, str, str], Path]) -> None:
    found, corpus = private(conf), load_corpus("mini-answers")
    with pytest.raises(HarnessError, match=r"edition hidden is private.*--no-judgments"):
        export(found, corpus, "beir", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    checksum = found.qrels().sha256
    for form in ("beir", "trec", "mteb"):
        assert export(found, corpus, form, tmp_path / form, judgments=False).judgments is None
        texts = [path.read_text(encoding="utf-8") for path in (tmp_path / form).rglob("*") if path.is_file()]
        assert not any(checksum in text for text in texts)
        assert not any("qrels" in path.name for path in (tmp_path / form).rglob("*"))


def test_an_open_edition_beside_a_private_one(tmp_path: Path, conf: Callable[[str, str, str], Path]) -> None:
    public = tmp_path / "public.txt"
    public.write_text("M.1 0 a1088 1\nM.2 0 a1007 0\n", encoding="utf-8")
    found = private(conf, open=f"public: {{title: public, qrels: {{file: {public}}}}}")
    with pytest.raises(HarnessError, match="name --edition public"):
        export(found, load_corpus("mini-answers"), "trec", tmp_path / "out")
    export(found, load_corpus("mini-answers"), "trec", tmp_path / "out", edition="public")
    assert (tmp_path / "out" / "qrels.txt").read_text(encoding="utf-8") == "M.1 0 a1088 1\nM.2 0 a1007 0\n"


def test_a_corpus_of_privately_judged_documents(tmp_path: Path, conf: Callable[[str, str, str], Path]) -> None:
    found = private(conf)
    conf(
        "corpus",
        "pooled",
        "name: pooled\ntitle: P\nlicence: CC0\nfile: {embedded: corpora/mini-answers.jsonl}\n"
        "fields: {id: id, title: title, body: body}\njudged: [secret]\n",
    )
    with pytest.raises(HarnessError, match="holds the documents that secret, edition hidden, judges"):
        export(found, load_corpus("pooled"), "beir", tmp_path / "out", judgments=False)


def test_judgments_of_missing_documents(tmp_path: Path) -> None:
    documents = [Document("d1", "", "one"), Document("d2", "", "two")]
    qrels = Qrels.from_dict("given", {"q1": {"d1": 1, "gone": 2}, "q2": {"gone": 1}})
    parts = own(documents, qrels, (Topic("q1", "x"), Topic("q2", "y")), tmp_path)
    assert export(*parts, "beir", tmp_path / "out").judgments == 1
    assert (tmp_path / "out/qrels/test.tsv").read_text(encoding="utf-8") == "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
    assert "2 of 3 judgments are of documents that corpus own lacks" in (tmp_path / "out/README.md").read_text("utf-8")
    none = own(documents, Qrels.from_dict("given", {"q1": {"gone": 2}}), (Topic("q1", "x"),), tmp_path)
    with pytest.raises(HarnessError, match="corpus own: holds none of the documents judged"):
        export(*none, "beir", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_grades_are_whole_or_rounded(tmp_path: Path) -> None:
    qrels = Qrels.from_dict("given", {"q1": {"d1": 0.5, "d2": 2}})
    parts = own([Document("d1", "", "a"), Document("d2", "", "b")], qrels, (Topic("q1", "x"),), tmp_path)
    with pytest.raises(HarnessError, match=r"'d1' of topic 'q1' has grade 0.5.*--round"):
        export(*parts, "trec", tmp_path / "out")
    export(*parts, "trec", tmp_path / "out", rounded=True)
    assert (tmp_path / "out" / "qrels.txt").read_text(encoding="utf-8") == "q1 0 d1 1\nq1 0 d2 2\n"


def test_documents_are_streamed_and_a_fault_leaves_nothing(tmp_path: Path) -> None:
    """Each document is written before the next one is read; the folder appears only when it is whole."""
    alive: list[int] = []

    class Counted(str):
        __slots__ = ()

        def __del__(self) -> None:
            alive.append(-1)

    most = 0

    def read(*_: object) -> Iterator[tuple[tuple[Path, int], Document]]:
        nonlocal most
        for n in range(200):
            alive.append(1)
            yield (tmp_path, n), Document(f"d{n}", "", Counted("text"))
            most = max(most, sum(alive))
        raise HarnessError("documents: line 201 is damaged")

    collection, corpus = own([], Qrels.from_dict("given", {"q1": {"d1": 1}}), (Topic("q1", "x"),), tmp_path)
    before = set(tmp_path.iterdir())
    with pytest.raises(HarnessError, match="line 201 is damaged"):
        export(collection, replace(corpus, reader=CorpusReader("own", read)), "beir", tmp_path / "out")
    assert most < 5
    assert set(tmp_path.iterdir()) == before


def test_folders_that_exist(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    exported("mini-theorems", "trec", tmp_path / "empty")
    with pytest.raises(HarnessError, match="exists already, and is left as it is"):
        exported("mini-theorems", "trec", tmp_path / "empty")
    with pytest.raises(HarnessError, match="--as bier: no such form; did you mean 'beir'"):
        exported("mini-theorems", "bier", tmp_path / "other")


def test_a_mark_of_trec_in_a_topic(tmp_path: Path) -> None:
    qrels = Qrels.from_dict("given", {"q1": {"d1": 1}})
    parts = own([Document("d1", "", "a")], qrels, (Topic("q1", "what is <title> in HTML?"),), tmp_path)
    with pytest.raises(HarnessError, match=r"topic 'q1': its text has '<title>'.*--as beir"):
        export(*parts, "trec", tmp_path / "out")


def test_labels_of_trec_in_a_topic(tmp_path: Path) -> None:
    qrels = Qrels.from_dict("given", {"q1": {"d1": 1}})
    topic = Topic("q1", "Topic: models", "Description: of what?", formulas=(Formula("q_1", "x"),))
    parts = own([Document("d1", "", "a")], qrels, (topic,), tmp_path)
    export(*parts, "trec", tmp_path / "out")
    (read,) = read_topics(tmp_path / "out" / "topics.trec")
    assert (read.title, read.body) == (topic.title, topic.body)


# ---- TREC's documents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "says"), literals("collections/trec_document_faults"))
def test_faults_of_trec_documents(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "documents.trec").write_text(text, encoding="utf-8")
    with pytest.raises(HarnessError) as caught:
        documents_of(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'documents.trec'}{says}")
