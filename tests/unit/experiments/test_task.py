"""What runs are scored by: one function with one set of checks, for names and for values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refusal as message

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.files import read_topics
from harness.collections.load import load_collection, local_collection
from harness.data.trec import Run
from harness.experiments.evaluate import cautions, compare, evaluate, evaluation_to_json, read_runs
from harness.experiments.task import task
from harness.io.files import data_root
from harness.scoring.protocol import load_protocol

Conf = Callable[[str, str, str], Path]


def collection(folder: Path, conf: Conf, qrels: str, topics: str, more: str = "") -> Collection:
    (folder / "q.txt").write_text(qrels)
    (folder / "t.jsonl").write_text("".join(f'{{"id": "{name}", "title": "x"}}\n' for name in topics.split()))
    judged = [line.split() for line in qrels.splitlines()]
    conf(
        "collection",
        "mine",
        f"name: mine\ntitle: x\nlicence: y\nprotocol: trec_eval\ntopics: {{reader: jsonl, file: {folder}/t.jsonl}}\n"
        f"editions: {{all: {{title: x, qrels: {{file: {folder}/q.txt}}, topics: {len({row[0] for row in judged})}, "
        f"judgments: {len(judged)}}}}}\n{more}",
    )
    return load_collection("mine")


def test_judgments_of_topics_that_the_collection_lacks_are_refused(conf: Conf, tmp_path: Path) -> None:
    """Otherwise no run can answer them, and each counts 0 in every mean."""
    mine = collection(tmp_path, conf, "T1 0 a 1\nT8 0 a 1\nT9 0 a 1\n", "T1 T2")
    expected = "collection mine: the judgments contain topic 'T8', which is none of its topics (2 such topics)"
    assert message(lambda: task(mine)) == message(lambda: task("mine")) == expected
    given = local_collection(tmp_path / "q.txt", tmp_path / "t.jsonl")
    assert message(lambda: task(given)) == expected.replace("mine", "q.txt")
    assert task(collection(tmp_path, conf, "T1 0 a 1\n", "T1 T2")).scorer.qrels.topics == ("T1",)


def test_names_and_values_are_the_same_task() -> None:
    mini, answers = load_collection("mini-task1"), load_corpus("mini-answers")
    named = task("mini-task1", "mini-answers", protocol="trec_eval", measures=["P@5"])
    given = task(mini, answers, protocol=load_protocol("trec_eval"), measures=("P@5",))
    for found in (named, given):
        assert (found.collection, found.corpus, found.keys) == (mini, answers, None)
        assert found.scorer.protocol == load_protocol("trec_eval")
        assert found.scorer.measures == ("P@5",)
        assert found.coverage is not None
        assert found.coverage.complete
    assert task(mini, measures=[]).scorer.measures == load_protocol(mini.protocol).measures


def test_nothing_is_kept_that_a_person_may_edit(conf: Conf, tmp_path: Path) -> None:
    mine = collection(tmp_path, conf, "T1 0 a 1\n", "T1")
    assert task(mine).scorer.qrels.to_dict() == {"T1": {"a": 1}}
    (tmp_path / "q.txt").write_text("T1 0 a 2\n")
    assert task(mine).scorer.qrels.to_dict() == {"T1": {"a": 2}}
    loose = replace(load_protocol("trec_eval"), relevant_from=3.0)
    run = Run.from_dict("r", {"T1": {"a": 1.0}})
    assert task(mine, protocol=loose, measures=["RR"]).scorer(run).mean("RR") == 0.0
    assert task(mine, measures=["RR"]).scorer(run).mean("RR") == 1.0


def test_keys_are_those_given_then_the_corpus_s_then_the_collection_s(conf: Conf, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "f1", "v": "a"}\n{"id": "f2", "v": "b"}\n')
    corpus = f"title: x\nlicence: y\nfile: {{file: {tmp_path}/c.jsonl}}\nfields: {{id: [id, latex], v: visual_id}}\n"
    conf("corpus", "with", f"name: with\n{corpus}has_keys: true\n")
    conf("corpus", "without", f"name: without\n{corpus}")
    conf(
        "corpus",
        "keyed",
        f"name: keyed\n{corpus.replace('{id: [id, latex], v: visual_id}', '{v: id}')}ids_are_keys: true\n",
    )
    (tmp_path / "k.tsv").write_text("id\tkey\nf1\tb\nf2\ta\n")
    own = f"keys: {{file: {tmp_path}/k.tsv, id_column: id, key_column: key}}\n"
    mine = collection(tmp_path, conf, "T1 0 a 1\nT1 0 z 0\n", "T1", own)
    run = Run.from_dict("r", {"T1": {"f1": 2.0, "f2": 1.0}})

    def first(corpus: str | None, keys: dict[str, str] | None = None) -> float:
        found = task(mine, corpus, protocol="arqmath-task2", measures=["Judged@1"], keys=keys)
        return found.scorer(run).mean("Judged@1")

    # f1, which stands first, is the judged `a` by the corpus, and `b` by the collection.
    assert [first(None), first("without"), first("with"), first("with", {"f1": "q"})] == [0.0, 0.0, 1.0, 0.0]
    assert task(mine, "with", protocol="arqmath-task2").keys == {"f1": "a", "f2": "b"}
    assert task(mine, "without", protocol="arqmath-task2").keys == {"f1": "b", "f2": "a"}
    assert task(mine, "keyed", protocol="arqmath-task2").keys is None
    assert task(mine, "with", protocol="arqmath-task2", keys={"f1": "q"}).scorer.key("f1") == "q"
    assert task(mine, "with", protocol="arqmath-task2", keys={"f1": "q"}).keys == {"f1": "a", "f2": "b"}
    named = task(mine, "with", protocol="arqmath-task2", ids_are_keys=True)  # runs name `a`, the corpus f1
    assert named.scorer.key("a") == "a"
    assert named.keys == {"f1": "a", "f2": "b"}
    assert named.coverage is not None
    assert (named.coverage.present, named.coverage.pairs) == (1, 2)


def test_keys_without_use_are_refused() -> None:
    expected = "keys: protocol arqmath-task1 does not de-duplicate; remove the keys"
    assert message(lambda: task("mini-task1", keys={"a": "b"})) == expected
    assert message(lambda: task("mini-task1", ids_are_keys=True)) == expected


def test_a_corpus_of_other_documents_is_refused() -> None:
    said = message(lambda: task("mini-task1", "mini-formulas"))
    assert said.startswith("corpus mini-formulas: contains none of the 320 judged documents (such as ")


def test_an_evaluation_says_what_its_task_is() -> None:
    found = task("mini-task1", "mini-answers")
    topic, judged = next(iter(found.scorer.qrels.to_dict().items()))
    runs = [Run.from_dict(name, {topic: {doc: 1.0}}) for name, doc in zip("ab", judged, strict=False)]
    evaluation = evaluate(found, *runs)
    assert evaluation.task == found
    assert evaluation.task.coverage is found.coverage
    assert [row.b for row in compare(evaluation, "a").rows] == ["a"] * 4
    assert compare(evaluation, seed=7, alpha=0.5, family=99).family == 99
    assert message(lambda: compare(evaluate(found, *runs[:1]))) == "compare: expected at least two runs"
    hint = "compare: expected at least two runs; the baseline is one of them, by its name"
    assert message(lambda: compare(evaluate(found, *runs[:1]), "x")) == hint
    document = evaluation_to_json(evaluation, compare(evaluation))
    assert [scores["run"] for scores in document["scores"]] == ["a", "b"]
    assert document["comparison"]["family"] == 4


def test_results_without_a_key_are_told_of_every_run() -> None:
    found = task("mini-task2")
    topic = found.scorer.qrels.topics[0]
    known = next(iter(found.keys or {}))
    runs = [Run.from_dict("odd", {topic: {"nowhere": 2.0, known: 1.0}}), Run.from_dict("fine", {topic: {known: 1.0}})]
    assert cautions(evaluate(found, *runs))[0] == "odd: 1 result has no key and counts as not judged"


# Runs by name


def put(folder: Path, name: str, tag: str) -> Path:
    (folder / name).write_text(f"T1 Q0 d1 1 1.0 {tag}\n")
    return folder / name


def test_names_that_are_given_come_before_tags_and_files(tmp_path: Path) -> None:
    paths = [put(tmp_path, name, "same") for name in ("a", "b", "c")]
    assert [run.name for run in read_runs(paths, names=["x", "", ""])] == ["x", "b", "c"]
    assert [run.name for run in read_runs(paths[:2], names=["", "x"])] == ["same", "x"]
    assert [run.name for run in read_runs([paths[0]] * 2, names=["x", "y"])] == ["x", "y"]
    # A tag that fits no file name is no fault where a name is given.
    odd = put(tmp_path, "odd", "../t")
    assert [run.name for run in read_runs([odd], names=["x"])] == ["x"]


@pytest.mark.parametrize("names", [["x", "x"], ["same", ""], ["", "same"]])
def test_a_name_is_given_once(tmp_path: Path, names: list[str]) -> None:
    paths = [put(tmp_path, name, "same") for name in ("a", "b")]
    expected = f"{names[0] or names[1]}: 2 runs have this name; give each its own, as NAME=FILE"
    assert message(lambda: read_runs(paths, names=names)) == expected


# Judgments and topics without a configuration


def test_judgments_alone_are_a_collection(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("T1 0 a 1\nT2 0 a 0\n")
    given = local_collection(tmp_path / "q.txt")
    assert given.known_topics() is None
    assert given.topics().ids() == {"T1", "T2"}
    found = task(given)
    assert found.scorer.protocol.name == "trec_eval"
    scores = found.scorer(Run.from_dict("r", {"T1": {"a": 1.0}, "other": {"a": 1.0}}))
    assert scores.topics == ("T1", "T2")
    assert scores.counts["topics without judgments"] == 1
    assert task(local_collection(tmp_path / "q.txt"), protocol="arqmath-task1").scorer.protocol.prime


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('<?xml version="1.0"?>\n<Topics><Topic number="A.1"><Title>x</Title></Topic></Topics>', {"A.1"}),
        ('\ufeff\n{"id": "T1", "title": "x"}\n', {"T1"}),
        ("1\ttitle\tbody\ttags\n2\ttitle\tbody\t\n", {"1", "2"}),
        ("NTCIR12-1\t\\sin x\r\nNTCIR12-2\t\\qvar{*1*}\n", {"NTCIR12-1", "NTCIR12-2"}),
        ("N-1\tthe sine\r\nN-2\tthe cosine\n", {"N-1", "N-2"}),
        ("\n<top>\n<num>7\n<title>x\n</top>\n", {"7"}),
        ("query\tgold\tsource\tpath_or_id\nzorn\tzorn\tlist\ta / b\n", {"list-001"}),
        ('[{"group": "1", "queries": [{"form": "theorem name", "query": "x"}], "theorems": {"t": 2}}]', {"1.1"}),
        (
            '[ {"id": "O1", "full_name": "t", "q1a_lean": "x", "q1b_latex": "", "q1c_natural": "y", "q2_slogan": "",'
            ' "q3_nickname": "", "q4_special_case": ""}]',
            {"O1.lean", "O1.natural"},
        ),
    ],
)
def test_the_form_of_topics_is_told_by_the_file(tmp_path: Path, text: str, ids: set[str]) -> None:
    path = tmp_path / "topics"
    path.write_text(text, encoding="utf-8")
    assert read_topics(path).ids() == ids


def test_every_embedded_file_of_topics_is_told_apart() -> None:
    paths = sorted((data_root() / "topics").glob("*.jsonl"))
    assert len(paths) >= 3
    assert all(len(read_topics(path)) for path in paths)


@pytest.mark.parametrize("text", ["", "a b c\n", "x\ty\tz\n", "[]", "[1]", "{}", "<html>", "PK\x03\x04"])
def test_a_file_without_topics_is_one_fault(tmp_path: Path, text: str) -> None:
    path = tmp_path / "topics"
    path.write_text(text)
    assert message(lambda: read_topics(path)).startswith(f"{path}")
