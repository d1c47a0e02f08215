"""Data sets in BEIR's form: which files are read, what they hold, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_tables import literals

import harness
from harness.collections.beir import BeirCorpus, DataSet, survey
from harness.collections.readers import beir
from harness.collections.readers.beir import find_beir_files
from harness.errors import HarnessError
from harness.io import config
from harness.scoring.protocol import load_protocol
from harness.scoring.scorer import Scorer

Rows = list[dict[str, Any]]
CORPUS: Rows = [
    {"_id": "d1", "title": "Series", "text": "The series $\\sum q^n$ converges."},
    {"_id": "d2", "title": "", "text": "Derivative of a series of $x^x$"},
    {"_id": "d3", "text": "Groups of order 15"},
]
QUERIES: Rows = [
    {"_id": "q1", "text": "series $\\sum q^n$"},
    {"_id": "q2", "text": "groups"},
    {"_id": "train", "text": "x"},
]
QRELS: Rows = [
    {"query-id": "q1", "corpus-id": "d1", "score": 2},
    {"query-id": "q1", "corpus-id": "d2", "score": 0},
    {"query-id": "q2", "corpus-id": "d3", "score": 1.0},
]
FORMS = {  # form -> files of the documents, queries, judgments and exclusions
    "BEIR": ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "excluded_ids.jsonl"),
    "MIRB on the hub": ("corpus.jsonl", "queries.jsonl", "qrels/test.jsonl", "excluded_ids.jsonl"),
    "packed": ("corpus.jsonl.gz", "queries.jsonl.gz", "qrels/test.tsv.gz", "excluded_ids.jsonl.gz"),
    "Parquet": [
        f"{n}-00000-of-00001.parquet" for n in ("corpus/corpus", "queries/queries", "data/test", "excluded_ids/e")
    ],
    "mteb": [f"{n}.parquet" for n in ("corpus/test-00000-of-00001", "queries/test", "qrels/test", "excluded_ids")],
    "subset": [f"easy/{n}.jsonl" for n in ("corpus", "queries", "qrels/test", "excluded_ids")],
    "subset-": [f"easy-{n}.parquet" for n in ("corpus/test", "queries/test", "qrels/test", "excluded_ids/a")],
}
EXCLUDED: Rows = [{"query-id": "q1", "excluded-ids": ["d2", "nowhere"]}, {"query-id": "q2", "excluded-ids": []}]


def write(folder: Path, name: str, rows: Rows) -> None:
    """Rows in the form that a file's name says."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    if ".tsv" in name:
        text = "\n".join("\t".join(map(str, line)) for line in (list(rows[0]), *(row.values() for row in rows))) + "\n"
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def data_set(folder: Path, **files: Rows | None) -> Path:
    """A data set in BEIR's own form, with some parts replaced or (None) left out."""
    names = dict(zip(("corpus", "queries", "qrels", "excluded"), FORMS["BEIR"], strict=True))
    parts: Mapping[str, Rows | None] = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, **files}
    for part, rows in parts.items():
        if rows is not None:
            write(folder, names[part], rows)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form: str, tmp_path: Path) -> None:
    for name, rows in zip(FORMS[form], (CORPUS, QUERIES, QRELS, EXCLUDED), strict=True):
        write(tmp_path, name, rows)
    (tmp_path / "README.md").write_text("card")
    data = DataSet(tmp_path, subset="easy" if "subset" in form else "")
    found = survey(data)
    assert (found.documents, found.topics, found.judgments, found.excluded) == (3, 2, 3, 2)
    files = data.files()
    judged = beir.qrels(files, "test")
    assert judged.to_dict() == {"q1": {"d1": 2, "d2": 0}, "q2": {"d3": 1}}
    topics = beir.topics(files, judged.topics)
    assert [(t.id, t.title, [f.latex for f in t.formulas]) for t in topics] == [
        ("q1", "series $\\sum q^n$", ["\\sum q^n"]),
        ("q2", "groups", []),
    ]
    documents = list(BeirCorpus("c", "", "", (), reader=beir.DOCUMENTS, data=data))
    assert [(d.id, d.title, d.body) for d in documents] == [
        ("d1", "Series", CORPUS[0]["text"]),
        ("d2", "", CORPUS[1]["text"]),
        ("d3", "", CORPUS[2]["text"]),
    ]
    assert beir.excluded(files) == {"q1": {"d2", "nowhere"}, "q2": frozenset()}


def test_shards_are_one_part_and_none_may_be_missing(tmp_path: Path) -> None:
    data_set(tmp_path, corpus=None)
    for n, row in enumerate(CORPUS):
        write(tmp_path, f"corpus/test-0000{n}-of-00003.parquet", [row])
    data = DataSet(tmp_path)
    assert list(BeirCorpus("c", "", "", (), reader=beir.DOCUMENTS, data=data).ids()) == ["d1", "d2", "d3"]
    (tmp_path / "corpus" / "test-00001-of-00003.parquet").unlink()
    with pytest.raises(HarnessError, match=r"2 files such as corpus/test-00000-of-00003.parquet, whose name says how"):
        data.files()


@pytest.mark.parametrize(("names", "split", "fault"), literals("collections/beir_missing_parts"))
def test_what_is_not_there(names: list[str], split: str, fault: str) -> None:
    with pytest.raises(HarnessError) as raised:
        find_beir_files(names, "s", split)
    assert str(raised.value) == fault


def test_of_several_forms_of_a_part_one_is_read() -> None:
    names = [*FORMS["BEIR"], "qrels/test.jsonl", "qrels/test.parquet", "qrels/dev.jsonl"]
    assert find_beir_files(names, "s")["qrels"] == ("qrels/test.jsonl",)


def test_judgments_that_name_no_split_are_those_of_test(tmp_path: Path) -> None:
    data_set(tmp_path, qrels=None)
    write(tmp_path, "qrels.tsv", QRELS)
    assert survey(DataSet(tmp_path)).judgments == 3
    with pytest.raises(HarnessError, match=r"qrels: no split 'dev'; there are: test$"):
        survey(DataSet(tmp_path, split="dev"))


def test_a_pair_that_two_shards_judge_is_named_with_both(tmp_path: Path) -> None:
    data_set(tmp_path, qrels=None)
    write(tmp_path, "qrels/test-00000-of-00002.parquet", QRELS[:2])
    write(tmp_path, "qrels/test-00001-of-00002.parquet", [QRELS[2], QRELS[1]])
    with pytest.raises(HarnessError) as raised:
        survey(DataSet(tmp_path))
    said = "judgment 2, document 'd2' of topic 'q1', is judgment 2 of test-00000-of-00002.parquet already"
    assert str(raised.value) == f"{tmp_path}/qrels/test-00001-of-00002.parquet: {said}"


def test_grades_that_are_no_whole_numbers_are_gains(tmp_path: Path) -> None:
    data_set(tmp_path, qrels=[{**QRELS[0], "score": 0.5}, QRELS[2], {**QRELS[1], "score": "1e0"}])
    judged = beir.qrels(DataSet(tmp_path).files(), "test")
    run = harness.Run.from_dict("r", {"q1": {"d1": 2.0, "d2": 1.0}})
    scores = Scorer(judged, load_protocol("beir"), measures=["nDCG@10", "AP"])(run)
    np.testing.assert_allclose(scores.values[0], [(0.5 + 1 / np.log2(3)) / (1 + 0.5 / np.log2(3)), 1 / 2])


def lines(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        *literals("collections/beir_a_fault_is_one_line_with_its_place"),
        (
            "qrels/test.jsonl",
            lines('{"query-id": "q1", "corpus-id": "d1", "score": 1' + "0" * 400 + "}"),
            "qrels/test.jsonl:1: grade '1" + "0" * 400 + "' is not a finite number",
        ),
    ],
)
def test_a_fault_is_one_line_with_its_place(file: str, content: bytes, fault: str, tmp_path: Path) -> None:
    data_set(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(HarnessError) as raised:
        survey(DataSet(tmp_path))
    assert str(raised.value).startswith(f"{tmp_path}/{fault}")
    assert "\n" not in str(raised.value)


def test_a_title_that_is_no_number_is_none(tmp_path: Path) -> None:
    data = DataSet(data_set(tmp_path))
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": NaN, "text": "a"}\n')
    assert [one.title for one in BeirCorpus("c", "", "", (), reader=beir.DOCUMENTS, data=data)] == [""]


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    data_set(tmp_path, corpus=None)
    write(tmp_path, "corpus.parquet", CORPUS)
    whole = (tmp_path / "corpus.parquet").read_bytes()
    (tmp_path / "corpus.parquet").write_bytes(whole[:-20])
    with pytest.raises(HarnessError, match=r"corpus.parquet: no whole Parquet file: "):
        survey(DataSet(tmp_path))


# ---- configurations ---------------------------------------------------------------------------------------------

FACTS = 15


def test_the_tasks_of_mirb_are_collections_and_say_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    names = [name for name in config.names("collection") if name.startswith("mirb-")]
    assert len(names) == FACTS
    revisions = set()
    for name in names:
        collection, corpus = harness.load_collection(name), harness.load_corpus(name)
        assert (collection.data.name, collection.data.revision) == (corpus.data.name, corpus.data.revision)  # type: ignore[attr-defined]
        revisions.add(corpus.data.revision)  # type: ignore[attr-defined]
        assert collection.corpus == name
        for each in (collection, corpus):
            assert each.state() == f"needs the data set {corpus.data.name} (hub): harness fetch {name}"  # type: ignore[attr-defined]
    assert len(revisions) == FACTS


def test_a_task_of_mirb_from_a_folder_of_its_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path))
    folder = tmp_path / "huggingface.co/datasets/hcju/modup/b123b60d6ccaad16eb0305f3f35e14dd557c0962"
    for name, rows in zip(FORMS["MIRB on the hub"], (CORPUS, QUERIES, QRELS, EXCLUDED), strict=True):
        write(folder, name, rows)
    task = harness.task("mirb-modup", "mirb-modup")
    assert task.collection.state() == "here"
    assert task.scorer.protocol.exclude == ("listed",)
    assert task.scorer.qrels.to_dict() == {"q1": {"d1": 2}, "q2": {"d3": 1}}
    run = harness.Run.from_dict("r", {"q1": {"d2": 3.0, "d3": 2.0, "d1": 1.0}, "q2": {"d3": 1.0}})
    scores = harness.evaluate(task, run).scores[0]
    np.testing.assert_allclose(scores.column("nDCG@10"), [1 / np.log2(3), 1.0])
    assert (scores.counts["results excluded"], scores.counts["judgments excluded"]) == (1, 1)
    made = harness.produce("bm25", task, runs=tmp_path / "runs")
    assert "d2" not in made.to_dict().get("q1", {})
    side = (tmp_path / "runs" / "mirb-modup" / "bm25.ir-metadata.yml").read_text()
    assert "results left out after the depth cut: 0" in side
    assert "excluded documents left out before the depth cut': 1" in side


def test_a_set_without_exclusions_cannot_be_scored_by_a_protocol_that_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "conf"))
    data_set(tmp_path / "data")
    for group in ("collection", "corpus"):
        (tmp_path / "conf" / group).mkdir(parents=True)
    about = "name: mine\ntitle: Mine\nlicence: CC0\n"
    file = tmp_path / "conf/collection/mine.yaml"
    file.write_text(f"{about}protocol: beir-listed\nbeir: {{folder: ../../data}}\n")
    with pytest.raises(HarnessError, match="excludes what is listed, and edition test names no file of that"):
        harness.task("mine")
    assert harness.task("mine", protocol="beir").scorer.qrels.edition == "test"
    for key, fault in (
        ("beir: {folder: ../../data, topics: 3}", "2 topics and 3 judgments; {file} says 3 and 0"),
        ("beir: {hub: a/b}", "{file}: beir: keys 'hub' and 'revision' go together: the hub's data sets change"),
        (
            "beir: {hub: a, revision: main}",
            "{file}: beir: key 'hub' is 'a', expected OWNER/NAME as on huggingface.co/datasets",
        ),
        ("beir: {split: test}", "{file}: beir: expected one of the keys 'folder' and 'hub'"),
        ("beir: {folder: ../../none}", "none: no such folder"),
        ("beir: {folder: ../../data}\ncorpus: unheard-of", "corpus 'unheard-of' is unknown"),
        ("beir: {folder: ../../data, spilt: dev}", "{file}: beir: key 'spilt' is unknown; did you mean 'split'?"),
    ):
        file.write_text(f"{about}protocol: beir\n{key}\n")
        with pytest.raises(HarnessError) as raised:
            harness.task("mine")
        assert fault.format(file=file) in str(raised.value)
