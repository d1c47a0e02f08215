"""Dollar signs of corpora and topics that are not about mathematics alone: amounts of money are words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.collections.beir import DataSet, survey
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Document
from harness.collections.files import read_topics
from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.systems.base import Request
from harness.systems.dense.texts import of_document, of_topic
from harness.systems.lexical.system import BM25

PRICES = {
    "d1": "A ticket costs $5 and the expected payoff of the lottery is $10 today.",
    "d2": "Some unrelated group theory.",
    "d3": r"Price \$5 and the expected lottery is \$10.",
    "d4": "A lone $ sign then lottery words",
}
STAKES = {
    "d1": "The stake is $5 per game.\n\nLet $X$ be the payoff of the martingale and $Y$ its stopping time, gambler.",
    "d2": "Some unrelated group theory of $G$.",
}


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for group in ("collection", "corpus"):
        (tmp_path / "conf" / group).mkdir(parents=True)
    return tmp_path / "conf"


def beir(folder: Path, documents: Mapping[str, str], queries: Mapping[str, str]) -> Path:
    """A data set in BEIR's format in which d1 is relevant for each query."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(rows))
    lines = ["query-id\tcorpus-id\tscore", *(f"{key}\td1\t1" for key in queries)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


def first(conf: Path, documents: Mapping[str, str], query: str, keys: str = "") -> list[str]:
    """Documents that BM25 ranks for a query, best first, with further keys of the data set."""
    beir(conf.parent / "data", documents, {"q1": query})
    about = "name: m\ntitle: M\nlicence: CC0\n"
    (conf / "corpus" / "m.yaml").write_text(f"{about}beir: {{folder: ../../data{keys}}}\n")
    (conf / "collection" / "m.yaml").write_text(f"{about}protocol: beir\nbeir: {{folder: ../../data{keys}}}\n")
    request = Request(load_collection("m").topics(), load_corpus("m"), conf.parent / "work")
    ranked = BM25(view={"name": "latex", "stem": "porter"})(request).to_dict().get("q1", {})
    return sorted(ranked, key=lambda doc: -ranked[doc])


def test_amounts_in_topics_are_words_too(conf: Path) -> None:
    assert set(first(conf, PRICES, "what is $5 for the lottery against $10")) == {"d1", "d3", "d4"}


def test_a_dollar_has_no_partner_beyond_a_blank_line(conf: Path) -> None:
    assert first(conf, STAKES, "martingale stopping time gambler") == ["d1"]
    corpus = load_corpus("m")
    assert [document.body for document in corpus] == [*STAKES.values()]
    assert [formula.latex for document in corpus for formula in document.formulas] == ["X", "Y", "G"]
    assert corpus.remarks() == {"dollar signs outside of formulas": 1, "formulas in texts": 3}
    assert survey(DataSet(conf.parent / "data")).texts == corpus.remarks()


def test_texts_of_a_mathematics_site_keep_every_pair(conf: Path) -> None:
    documents = {"d1": "Let $ x^2 $ be", "d2": "Let $y$ be"}
    assert first(conf, documents, "what is $ x^2 $", ", dollars: pairs") == ["d1"]
    assert [formula.latex for formula in load_collection("m").topics().topics[0].formulas] == ["x^2"]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("", "pairs"),
        ("dollars: pandoc", "pandoc"),
        ("reader: trec", "pandoc"),
        ("reader: trec\ndollars: pairs", "pairs"),
    ],
)
def test_the_key_of_a_corpus(conf: Path, given: str, rule: str) -> None:
    trec = "trec" in given
    text = "costs $5 or $10"
    (conf / "corpus" / "c.x").write_text(
        f"<DOC>\n<DOCNO>d1</DOCNO>\n<TEXT>{text}</TEXT>\n</DOC>\n" if trec else json.dumps({"id": "d1", "body": text})
    )
    fields = "" if trec else "fields: {id: id, body: body}\n"
    (conf / "corpus" / "c.yaml").write_text(f"name: c\ntitle: C\nlicence: CC0\nfile: {{file: c.x}}\n{fields}{given}\n")
    corpus = load_corpus("c")
    (document,) = corpus
    assert corpus.dollars == document.dollars == rule
    assert [each.latex for each in document.formulas] == (["5 or"] if trec and rule == "pairs" else [])
    (tokens,) = (t for t in [BM25(view={"name": "text"}).tokens(corpus).value])
    assert set(tokens.words) == ({"costs", "10"} if rule == "pairs" else {"costs", "5", "or", "10"})


def test_an_unknown_rule_is_one_line(conf: Path) -> None:
    (conf / "corpus" / "c.yaml").write_text(
        "name: c\ntitle: C\nlicence: CC0\nfile: {file: c.jsonl}\nfields: {id: id}\ndollars: money\n"
    )
    with pytest.raises(HarnessError, match="key 'dollars' is 'money', expected one of pairs, pandoc"):
        load_corpus("c")


@pytest.mark.parametrize(
    ("form", "reader", "rule"),
    [
        *(("q1\t{}\n", reader, "pandoc") for reader in ("", "tsv")),
        ("<top>\n<num> Number: q1\n<title> {}\n</top>\n", "trec", "pandoc"),
        ('{{"id": "q1", "title": "{}"}}\n', "jsonl", "pairs"),
    ],
)
def test_topics_by_format(tmp_path: Path, form: str, reader: str, rule: str) -> None:
    path = tmp_path / "topics"
    path.write_text(form.format("what is $5 for $x$ against $10"))
    (topic,) = read_topics(path, reader)
    assert topic.dollars == rule
    assert [each.latex for each in topic.formulas] == (["x"] if rule == "pandoc" else [])
    (other,) = read_topics(path, reader, dollars="pairs")
    assert [each.latex for each in other.formulas] == (["5 for", "against"] if rule == "pandoc" else [])


def test_texts_for_encoders_follow_the_rule() -> None:
    text = "costs $5 if $x$ or $10"
    document, topic = Document("d", body=text, dollars="pandoc"), Topic("t", text, dollars="pandoc")
    assert of_document(document, ["body"]) == text  # unchanged
    assert of_document(document, ["body"], "text") == of_topic(topic, ["title"], "text") == "costs $5 if or $10"
    assert of_document(document, ["body"], "mathberta") == "costs $5 if [MATH] x [/MATH] or $10"
