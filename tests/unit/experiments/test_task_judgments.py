"""Judgments of several collections as one, and those of what a corpus holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from refusals import refusal as message

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.trec import Qrels
from harness.experiments.task import present, training_judgments

Conf = Callable[[str, str, str], Path]


def test_training_judgments_of_several_collections_are_one(conf: Conf, tmp_path: Path) -> None:
    for name, text in (("one", "T1 0 a 1\nT2 0 b 2\n"), ("two", "T3 0 c 0\n"), ("three", "T2 0 z 1\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / "topics").write_text('{"id": "T1", "title": "x"}\n')
        lines = text.splitlines()
        edition = {
            "title": "x",
            "qrels": {"file": str(tmp_path / name)},
            "topics": len({line.split()[0] for line in lines}),
            "judgments": len(lines),
        }
        mapping = {
            "name": name,
            "title": "x",
            "licence": "y",
            "protocol": "trec_eval",
            "topics": {"reader": "jsonl", "file": str(tmp_path / "topics")},
            "editions": {"official": edition},
        }
        conf("collection", name, json.dumps(mapping))
    both = training_judgments(["one", "two/official"])
    assert both.to_dict() == {"T1": {"a": 1.0}, "T2": {"b": 2.0}, "T3": {"c": 0.0}}
    assert training_judgments(["one"]).sha256 == load_collection("one").qrels().sha256
    assert message(lambda: training_judgments(["one", "three"])) == (
        "training: three judges topic 'T2', which another collection judges too; remove one of them"
    )


def test_judgments_are_cut_to_what_the_corpus_holds(conf: Conf, tmp_path: Path) -> None:
    (tmp_path / "docs").write_text('{"id": "a"}\n{"id": "c"}\n')
    mapping = f"name: docs\ntitle: x\nlicence: y\nfile: {{file: '{tmp_path / 'docs'}'}}\nfields: {{id: id}}\n"
    conf("corpus", "docs", mapping)
    corpus = load_corpus("docs")
    qrels = Qrels.from_dict("q", {"T1": {"a": 1.0, "b": 2.0}, "T2": {"b": 1.0}})
    cut, coverage = present(qrels, corpus, None)
    assert cut.to_dict() == {"T1": {"a": 1.0}}
    assert (coverage.pairs, coverage.present, coverage.complete) == (3, 1, False)
    keyed, coverage = present(qrels, corpus, {"a": "b", "c": "a", "d": "z"})
    assert keyed.to_dict() == {"T1": {"a": 1.0, "b": 2.0}, "T2": {"b": 1.0}}
    assert coverage.complete
    assert message(lambda: present(Qrels.from_dict("q", {"T1": {"z": 1.0}}), corpus, None)) == (
        "corpus docs: contains none of the 1 judged documents (such as 'z'); choose the corpus of the judgments"
    )
