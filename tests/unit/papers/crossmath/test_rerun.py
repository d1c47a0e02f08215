"""Archived runs beside those made again: the statistics, the topics as the pipeline read them, and what is reported."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora_tools import span
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal, refuses
from scipy import stats

from harness.data.topics import Topic
from harness.data.trec import Qrels, Run
from harness.papers.crossmath import rerun
from harness.papers.crossmath.rerun import TITLE, RerunAgreement, ScorePair, agreement, agreement_section, query
from harness.papers.paper import load_paper
from harness.papers.paper_settings import RerunSettings
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.render.model import Prose, Table
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer
from harness.store.provenance import provenance
from harness.systems.dense import encoder, models

Tiny = Callable[..., str]
SCORES = st.integers(-8, 8).map(lambda n: n / 8)
ROWS = st.dictionaries(st.sampled_from("abc"), st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=7))
MODULE = "module: harness.papers.crossmath.report\n"
ENGLISH = """module: harness.papers.crossmath.report
translations:
  source: tiny
  english: eng.tsv
  languages: {ours: {title: Our, path: eng.tsv}}
"""
FILES = {"eng.tsv": "T1\tWhat is even?\tI tried. Two is.\tx\nT2\tOdd\tWhat of three?\tx\n"}
RERUN = """rerun:
  title: a model over all
  model: no-such/model
  corpus: mini-answers
  column: body
  runs: {base-run: nllb}
  cost: a minute
"""


def pairs_of(rows: dict[str, list[tuple[float, float]]]) -> list[ScorePair]:
    return [ScorePair(topic, f"{topic}{n}", *scores) for topic, found in rows.items() for n, scores in enumerate(found)]


@given(ROWS)
def test_correlations_are_means_over_topics(rows: dict[str, list[tuple[float, float]]]) -> None:
    columns = [tuple(map(np.array, zip(*found, strict=True))) for found in rows.values()]
    columns = [(a, b) for a, b in columns if len(set(a)) > 1 and len(set(b)) > 1]
    for kind, function in (("tau", stats.kendalltau), ("r", stats.pearsonr)):
        value, n = rerun.correlation(pairs_of(rows), kind)
        assert n == len(columns)
        if n:
            assert value == pytest.approx(np.mean([function(a, b)[0] for a, b in columns]))
        else:
            assert math.isnan(value)


@given(ROWS, st.sampled_from([0.0, 0.25]))
def test_couples_in_another_order(rows: dict[str, list[tuple[float, float]]], gap: float) -> None:
    couples = [
        (a, b)
        for found in rows.values()
        for a, b in itertools.combinations(found, 2)
        if a[0] != b[0] and abs(a[0] - b[0]) > gap
    ]
    wrong = [(a, b) for a, b in couples if (a[0] - b[0]) * (a[1] - b[1]) < 0]
    assert rerun.swapped(pairs_of(rows), gap) == (len(wrong), len(couples))


def test_differences() -> None:
    pairs = pairs_of({"1": [(0.5, 0.6), (0.5, 0.2)], "2": [(0.1, 0.1)]})
    assert rerun.differences(pairs) == pytest.approx((0.1, 0.3))
    assert pairs[1].difference == pytest.approx(-0.3)
    assert all(math.isnan(value) for value in rerun.differences([]))


@pytest.mark.parametrize(
    ("title", "body", "nllb", "mbart"),
    [
        ("Is it?", "Yes. No! Or? It is.", "Is it? Yes No Or It is.", "Is it? Yes. No! Or? It is."),
        ("A. B.", " x=1.5 ", "A B. x=1.5", "A. B. x=1.5"),
        ("T", "", "T ", "T "),
        ("T", "so . and", "T so  and", "T so . and"),
        ("T", "$a$. $b$", "T $a$ $b$", "T $a$. $b$"),
    ],
)
def test_a_query_is_what_the_authors_function_makes_of_it(title: str, body: str, nllb: str, mbart: str) -> None:
    topic = Topic("1", title, body)
    assert (query(topic, "nllb"), query(topic, "mbart")) == (nllb, mbart)


def test_placeholders_from_ten_up_are_damaged_in_a_query() -> None:
    formulas = " ".join(f"${letter}$" for letter in "abcdefghij")
    topic = Topic("1", f"As {formulas}", f"{formulas}. 2")
    # The body is left as it is.
    assert query(topic, "mbart") == f"As {formulas} {formulas}. 2".replace("$j$", "$a$0", 1)
    assert query(topic, "nllb") == f"As {formulas} {formulas} 2".replace("$j$", "$a$0", 1)


PROTOCOL = Protocol("p", ("nDCG@10",), prime=True, topics="all")
JUDGED = Qrels.from_dict("first", {"T1": {"a": 1, "b": 0, "c": 2}, "T2": {"a": 1, "d": 0}, "T3": {"a": 0, "b": 0}})
ARCHIVED = Run.from_dict("old", {"T1": {"a": 0.9, "b": 0.5, "c": 0.4, "x": 0.3}, "T2": {"d": 0.8}, "T3": {"a": 0.2}})
OURS = {"T1": {"a": 0.91, "b": 0.4, "c": 0.5}, "T2": {"a": 0.3, "d": 0.8}, "T3": {"a": 0.2004}, "T4": {"a": 1.0}}


def agreed() -> RerunAgreement:
    formulas = {"a": 0, "b": 3, "c": 1, "d": 2}
    return agreement(ARCHIVED, "c1", Scorer(JUDGED, PROTOCOL), OURS, formulas, frozenset({"T3", "T9"}))


def test_only_documents_that_both_have_are_compared() -> None:
    found = agreed()
    assert [(pair.topic, pair.doc) for pair in found.pairs] == [("T1", d) for d in "abc"] + [("T2", "d"), ("T3", "a")]
    assert found.topics == ("T1", "T2", "T3")
    # T2 has no relevant document among those, T3 none at all.
    assert (found.theirs.n("nDCG@10"), found.ours.n("nDCG@10")) == (1, 1)
    ideal = 2 + 1 / np.log2(3)
    assert found.theirs.mean("nDCG@10") == pytest.approx((1 + 2 / np.log2(4)) / ideal)
    assert found.ours.mean("nDCG@10") == pytest.approx((1 + 2 / np.log2(3)) / ideal)
    assert (found.theirs.run, found.ours.run) == ("old", "old-again")


def test_where_differences_come_from() -> None:
    found = agreed()
    assert [(p.topic, p.doc) for p in found.plain()] == [("T1", "a"), ("T3", "a")]
    assert found.same_topics() == ()  # the answer without formulas of T1 differs by .01; T3 has no other one
    assert {p.topic for p in found.near(0.05)} == {"T2", "T3"}
    close = agreement(ARCHIVED, "c1", Scorer(JUDGED, PROTOCOL), {"T1": OURS["T1"] | {"a": 0.9004}}, {"b": 3, "c": 1})
    assert [p.doc for p in close.same_topics()] == ["b", "c"]


def test_nothing_in_common() -> None:
    said = r"^run old: has no judged document of c1 in common with the re-run"
    refuses(said, lambda: agreement(ARCHIVED, "c1", Scorer(JUDGED, PROTOCOL), {"T2": {"a": 1.0}}, {}))


# What is reported


SETTINGS = RerunSettings("a model over all", "some-model", "some-corpus", "html", {"old": "nllb"}, "a minute")


def grid(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_the_table() -> None:
    section = agreement_section("key", SETTINGS, [agreed()])
    tables = {block.id: block for block in section.blocks if isinstance(block, Table)}
    theirs, ours = (f"{scores.mean('nDCG@10'):.3f}" for scores in (agreed().theirs, agreed().ours))
    r = f"{stats.pearsonr([0.9, 0.5, 0.4], [0.91, 0.4, 0.5])[0]:.3f}"
    assert grid(tables["rerun"]) == [["old", "c1", "3", "5", "0.333", r, "1", "0.0100", "0.1000", theirs, ours, "1"]]
    assert grid(tables["rerun-translation"]) == [
        ["old", "c1", "untranslated", "1", "1", "n/a", "n/a", "0", "0.0004"],
        ["old", "c1", "translated", "2", "4", "0.333", r, "1", "0.0550"],
    ]
    assert grid(tables["rerun-causes"]) == [
        ["c1", "all", "5", "0.333", "1", "0.0100", "0.1000", "1 of 3", "1 of 3"],
        ["c1", "answers without formulas", "2", "n/a", "0", "0.0052", "0.0100", "0 of 0", "0 of 0"],
        ["c1", "answers with formulas, topics equal to 0.001", "0", "n/a", "0", "n/a", "n/a", "0 of 0", "0 of 0"],
        ["c1", "topics with a median difference below 0.02", "2", "n/a", "0", "0.0002", "0.0004", "0 of 0", "0 of 0"],
    ]
    assert [row[:4] + row[6:] for row in grid(tables["rerun-largest"])][:2] == [
        ["c1", "T1", "b", "3", "-0.1000"],
        ["c1", "T1", "c", "1", "0.1000"],
    ]


def test_a_report_without_the_model_says_what_it_needs(tiny: Tiny) -> None:
    paper = load_paper(tiny(ENGLISH + RERUN, FILES))
    found = recompute_paper(paper)
    assert found.again == ()
    (section,) = (s for s in paper_report(found, provenance({})).sections if s.title == TITLE)
    paragraphs = (
        "Not re-run: base-run, by a model over all.",
        "A re-run needs the model no-such/model (harness fetch no-such/model) and takes a minute "
        "the first time: harness reproduce paper=tiny rerun=true",
    )
    assert section.blocks == (Prose(paragraphs),)
    refuses(r"^needs the model no-such/model: ", lambda: recompute_paper(paper, rerun=True))


NO_TOPICS = "needs the key 'translations', which names the English topics"
NO_RUN = "run 'bse-run' is not in the archive; did you mean 'base-run'?"


@pytest.mark.parametrize(
    ("extra", "fault"), [(MODULE + RERUN, NO_TOPICS), (ENGLISH + RERUN.replace("base-run", "bse-run"), NO_RUN)]
)
def test_faults_of_the_configuration(tiny: Tiny, extra: str, fault: str) -> None:
    assert refusal(lambda: load_paper(tiny(extra, FILES))).endswith(f"rerun: {fault}")


@pytest.mark.slow
def test_runs_are_made_again_once(
    tiny: Tiny, conf: Callable[[str, str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores are the inner products of the model's own vectors; a second time it is not loaded."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    if lacking := models.missing("all-minilm-l6-v2"):
        pytest.skip(lacking[0])
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    texts = {"d1": "<p>two is even</p>", "d3": f"<p>{span('x^2', '1')}</p>", "d4": "<p>three is odd</p>", "z": "no"}
    rows = [json.dumps({"id": name, "body": "", "html": text}) for name, text in texts.items()]
    (tmp_path / "docs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    place = f"file: {{file: {tmp_path / 'docs.jsonl'}}}"
    conf("corpus", "docs", f"name: docs\ntitle: t\nlicence: CC0\n{place}\nfields: {{id: id, body: body}}\n")
    settings = RERUN.replace("no-such/model", "all-minilm-l6-v2").replace("column: body", "column: html")
    part = {"qrels2.txt": "T5 0 d1 1\nT5 0 d4 0\n", "topics2.jsonl": '{"id": "T5", "title": "x"}\n'}
    part |= {f"runs/{name}_2.txt": "T5 Q0 d1 1 0.5 x\n" for name in ("base", "short", "tied")}
    english = FILES["eng.tsv"] + "T5\tTwo\tand two\tx\n"
    key = tiny(ENGLISH + settings.replace("mini-answers", "docs"), {**part, "eng.tsv": english})
    found = recompute_paper(load_paper(key), rerun=True)
    plain = sentence_transformers.SentenceTransformer(str(models.find_model("all-minilm-l6-v2").folder))
    asked = {"T1": "What is even? I tried Two is.", "T2": "Odd What of three?", "T5": "Two and two"}
    wanted = {("c1", "T1", "d1"), ("c1", "T1", "d3"), ("c1", "T2", "d4"), ("c2", "T5", "d1")}
    pairs = {(one.collection, pair.topic, pair.doc): pair for one in found.again for pair in one.pairs}
    assert pairs.keys() == wanted
    for (_, topic, doc), pair in pairs.items():
        query_vector, vector = plain.encode([asked[topic], texts[doc]])
        assert pair.ours == pytest.approx(float(query_vector @ vector), abs=1e-5)
        assert pair.formulas == (doc == "d3")

    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("the model is loaded again")

    monkeypatch.setattr(encoder, "load", loaded)
    again = recompute_paper(load_paper(key), rerun=True).again
    assert [one.pairs for one in again] == [one.pairs for one in found.again]
