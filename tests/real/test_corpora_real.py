"""Corpora and collections made of real data: counts, and what they hold of the judged documents."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from case_tables import literals

from harness.collections.corpora import load_corpus
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.io.files import read_bytes
from harness.papers.crossmath.readers import check_translation, crossmath_tsv
from harness.scoring.coverage import Coverage, restrict_judgments
from harness.scoring.protocol import Protocol, load_protocol
from harness.sources import catalogue
from harness.systems.theorems import informalise

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]


@cache
def ids(corpus: str) -> frozenset[str]:
    return frozenset(load_corpus(corpus).ids())


def coverage(corpus: str, collection: str, edition: str) -> tuple[Qrels, Coverage, Protocol, tuple[str, ...]]:
    wanted = load_collection(collection)
    cut, found = restrict_judgments(wanted.qrels(edition), ids(corpus))
    return cut, found, load_protocol(wanted.protocol), load_corpus(corpus).notes


# --- Math Stack Exchange pages ---


@pytest.mark.heavy
def test_pages_of_math_stack_exchange() -> None:
    pages = load_corpus("mse-pages")
    remarks: Counter[str] = Counter()
    documents = list(pages.documents(remarks))
    assert remarks == {
        "answers": 3395,
        "answers with formula spans around others": 5,
        "formula spans around others": 268,
        "formula spans without an end": 0,
        "formulas": 67_597,
        "formulas with repaired entities": 2329,
        "formulas with tags of HTML in their LaTeX": 23,
        "formulas without LaTeX": 26,
        "formulas without a visual id": 328,
        "formulas without their closing delimiter": 0,
    }
    formulas = [formula for document in documents for formula in document.formulas]
    assert len(formulas) == 67_597
    assert not any(re.search(r"&(lt|gt|amp|#\d+|\\displaystyle \w+);", formula.latex) for formula in formulas)
    assert Counter(formula.latex[-2:] for formula in formulas)["\\ "] == 179  # control spaces
    assert len({formula.visual_id for formula in formulas} - {""}) == 31_061
    assert all(d.title and d.columns["question"] and d.tags for d in documents)
    assert [d.id for d in documents if not d.body] == []
    # Formulas stand in the text where they were; none of the page's markup is left.
    for document in documents:
        text = " ".join((document.title, document.columns["question"], document.body))
        assert "<span" not in text
        for formula in document.formulas:
            if formula.visual_id:
                assert " ".join(formula.latex.split()) in text
    # Formulas without a visual id are as their authors wrote them, with comments.
    assert not any("% " in formula.latex.replace("\\%", "") for formula in formulas if formula.visual_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collection", "edition", "present", "pairs", "graded", "binary"),
    [
        ("arqmath-1-task1", "official", "622", "39,124", 61, 47),
        ("arqmath-2-task1", "official", "1,328", "31,788", 66, 57),
        ("arqmath-2-task1", "all", "1,665", "40,288", 73, 63),
        ("arqmath-3-task1", "official", "723", "34,847", 69, 62),
    ],
)
def test_judged_answers_among_the_pages(
    collection: str, edition: str, present: str, pairs: str, graded: int, binary: int
) -> None:
    cut, found, protocol, notes = coverage("mse-pages", collection, edition)
    assert found.sentence(protocol, notes) == (
        f"judged and present: {present} of {pairs} pairs; {graded} topics with a relevant document for nDCG′, "
        f"{binary} for MAP′, P′@10 and Bpref; documents selected by the MathDowsers team for display, not at random; "
        "not comparable with published values"
    )
    assert f"{len(cut):,}" == present
    assert (found.relevant_from(1), found.relevant_from(2)) == (graded, binary)
    assert set(cut.topics) == set(found.judged)


# --- formulas ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collection", "present", "topics", "graded", "binary"),
    [("arqmath-1-task2", 320, 45, 30, 26), ("arqmath-2-task2", 644, 58, 55, 52), ("arqmath-3-task2", 934, 76, 65, 61)],
)
def test_judged_formulas_among_those_of_the_pages(
    collection: str, present: int, topics: int, graded: int, binary: int
) -> None:
    wanted, keys = load_collection(collection), load_corpus("mse-formulas").keys()
    assert keys is not None
    scorer = wanted.scorer(keys=keys)
    cut, found = restrict_judgments(scorer.qrels, keys.values())
    assert (found.present, len(found.judged)) == (present, topics)
    assert (found.with_gain(scorer.protocol), found.relevant_from(2)) == (graded, binary)
    # A run of formulas is scored by their visual ids: the first formula of every judged one is a perfect run.
    of_key: dict[str, str] = {}
    for formula, key in keys.items():
        of_key.setdefault(key, formula)
    best = {t: {of_key[doc]: grade + 1 for doc, grade in docs.items()} for t, docs in cut.to_dict().items()}
    scores = scorer.on_part(cut)(Run.from_dict("best", best))
    assert scores.mean("nDCG") == pytest.approx(1)
    assert scores.mean("AP") == pytest.approx(1)
    assert (scores.n("nDCG"), scores.n("AP")) == (graded, binary)


@pytest.mark.slow
def test_judged_formulas_of_the_first_year() -> None:
    corpus = load_corpus("arqmath1-formulas")
    assert corpus.remarks() == {
        "formulas": 9350,
        "formulas without a symbol layout tree": 3,
        "trees whose brackets do not match": 0,
    }
    assert all(document.columns["opt"].startswith("[") and document.body for document in corpus)
    _, found, _, _ = coverage("arqmath1-formulas", "arqmath-1-task2", "official")
    assert (found.present, found.pairs, found.relevant_from(2)) == (6045, 6074, 45)


# --- Mathlib ---


@pytest.mark.slow
def test_declarations_of_mathlib() -> None:
    corpus = load_corpus("mathlib-decls")
    (first,) = islice(corpus, 1)
    assert first.id == first.title == first.columns["name"] == "AddConstMap"
    assert first.tags == ("structure", "Mathlib.Algebra.AddConstMap.Basic")
    assert first.body == f"{first.columns['doc']} {first.columns['signature']}"
    kinds = Counter(document.columns["kind"] for document in corpus)
    assert kinds.total() == 200_438 == len(ids("mathlib-decls"))
    proved = [one for one in corpus if one.columns["kind"] in informalise.PROVED]
    texts = [(one, informalise.DeclarationColumns().of(one, "statement")) for one in proved]
    assert len(texts) == 156_576
    # The kind's keyword is followed by the full name, which 122,350 declarations print in part or behind _root_.
    assert all(re.search(rf"(?:theorem|lemma)\s+{re.escape(one.id)}(?![\w']|\.[^{{])", text) for one, text in texts)
    assert sum(text != one.columns["signature"] for one, text in texts) == 122_350
    assert kinds["theorem"] == 115_966


@pytest.mark.slow
def test_queries_for_declarations() -> None:
    collection = load_collection("mathlib-qr")
    topics, qrels = collection.topics(), collection.qrels()
    assert len(topics) == len(qrels) == 946
    assert Counter(topic.attributes["style"] for topic in topics) == {
        "lean": 199, "latex": 200, "natural": 199, "slogan": 197, "nickname": 128, "special-case": 23,
    }  # fmt: skip
    assert len({topic.attributes["item"] for topic in topics}) == 200
    assert Counter(topic.attributes["difficulty"] for topic in topics).keys() == {"Easy", "Hard"}
    cut, found, protocol, _ = coverage("mathlib-decls", "mathlib-qr", "all")
    assert found.sentence(protocol).startswith("judged and present: 819 of 946 pairs; 819 topics with a relevant")
    items = {topic.id: topic.attributes["item"] for topic in topics}
    assert len({items[topic] for topic in cut.topics}) == 173


@pytest.mark.slow
def test_names_of_concepts() -> None:
    collection = load_collection("mathlib-names")
    assert (len(collection.topics()), len(collection.qrels().topics)) == (1074, 1074)
    _, found, _, _ = coverage("mathlib-decls", "mathlib-names", "all")
    # As many as the file itself says are in the corpus.
    data = local(collection.edition().file).read_text(encoding="utf-8").splitlines()[1:]
    assert found.relevant_from(1) == sum(line.endswith("\t1") for line in data) == 991


# --- NTCIR-12 ---


@pytest.mark.parametrize(("edition", "topics", "full"), [("concrete", 20, 198), ("all", 40, 557)])
def test_formula_browsing(edition: str, topics: int, full: int) -> None:
    collection = load_collection("ntcir-12-browsing")
    qrels = collection.qrels(edition)
    assert len(qrels.topics) == topics
    protocol = load_protocol(collection.protocol)
    assert (qrels.grade >= protocol.relevant_from).sum() == full
    kinds = {topic.id: topic.attributes["kind"] for topic in collection.topics()}
    assert Counter(kinds.values()) == {"concrete": 20, "wildcard": 20}
    assert set(qrels.topics) <= set(kinds)
    if edition == "concrete":
        assert {kinds[topic] for topic in qrels.topics} == {"concrete"}


# --- CrossMath ---

LANGUAGES = {
    "eng": "eng_Latn", "ces": "ces_Latn", "hrv": "hrv_Latn", "spa": "spa_Latn",
    "pes": "pes_Arab", "hin": "hin_Deva", "npi": "npi_Deva",
}  # fmt: skip


@cache
def translated(source: str, language: str) -> Topics:
    path = local(catalogue.resource({"source": source, "path": f"datasets/{LANGUAGES[language]}.tsv"}, "test"))
    assert isinstance(path, Path)
    return crossmath_tsv(read_bytes(path), str(path), language)


@cache
def judged() -> frozenset[str]:
    collection = load_collection("crossmath-eng")
    editions = ("arqmath-1", "arqmath-2-all", "arqmath-3")
    return frozenset(topic for edition in editions for topic in collection.qrels(edition).topics)


@pytest.mark.parametrize(
    ("source", "language", "english", "lost", "changed", "damaged"), literals("collections/crossmath_translations")
)
def test_translations(source: str, language: str, english: int, lost: int, changed: int, damaged: int) -> None:
    found = check_translation(language, language, translated(source, language), translated(source, "eng"), judged())
    assert (len(found.checked), found.missing, found.formulas) == (244, (), 2237)
    assert (len(found.english_bodies), found.lost, found.changed) == (english, lost, changed)
    assert len(found.damaged) == damaged


@pytest.mark.parametrize("name", [*(f"crossmath-{language}" for language in LANGUAGES), "crossmath-ces-paper"])
def test_collections_of_translated_topics(name: str) -> None:
    collection = load_collection(name)
    topics = collection.topics()
    assert len(topics) == 298
    assert {topic.language for topic in topics} == {name.split("-")[1]}
    assert {edition: len(collection.qrels(edition).topics) for edition in collection.editions} == {
        "arqmath-1": 77, "arqmath-2": 71, "arqmath-2-all": 89, "arqmath-3": 78,
    }  # fmt: skip
    for edition in collection.editions:
        assert set(collection.qrels(edition).topics) <= topics.ids()
    source = "crossmath-2024-04-25" if name.endswith("-paper") else "crossmath-revised"
    bare = Topics(tuple(replace(topic, attributes={}) for topic in topics))  # those of two years are of other files
    assert bare == translated(source, name.split("-")[1])
