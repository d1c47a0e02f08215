"""What the explorer is made of: rankings in the order of the protocol, pages of topics, and their compact JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from page_tools import explored

from harness.collections.corpus import Document
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.render.formats import render_json, render_markdown, tables_csv
from harness.render.html import explorer_json, render_html
from harness.render.latex import render_latex
from harness.render.model import (
    Cell,
    Column,
    Explorer,
    Figure,
    Section,
    Table,
    TopicPage,
    TopicPages,
    TopicVersion,
    TransformationStep,
    Wording,
    visible,
)
from harness.render.write import Report
from harness.reports import topics as builder
from harness.reports.topics import explorer, topic_pages
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Ranking, Scorer

QRELS = Qrels.from_dict("e", {"T1": {"a": 3, "b": 2, "c": 1, "d": 0}, "T2": {"x": 2}, "T3": {"y": 0}})
PRIME = Protocol("prime", ("P@2", "AP"), prime=True, relevant_from=2, depth=5)
RUNS = (
    Run.from_dict("one", {"T1": {"u": 9, "b": 8, "d": 7, "a": 6, "v": 5, "c": 4}, "T2": {"x": 1}}),
    Run.from_dict("two", {"T1": {"a": 1, "d": 1, "b": 1}, "T3": {"y": 1}}),
)
TOPICS = Topics(
    (
        Topic("T1", "Title with $x^2$", "Body", ("algebra",), attributes={"difficulty": "High"}),
        Topic("T2", "Second", attributes={"difficulty": "Low"}),
    )
)


def block(
    qrels: Qrels = QRELS,
    protocol: Protocol = PRIME,
    runs: tuple[Run, ...] = RUNS,
    topics: Topics = TOPICS,
    keys: Mapping[str, str] | None = None,
    **more: Any,  # noqa: ANN401 - arguments of `explorer`
) -> Explorer:
    scorer = Scorer(qrels, protocol, collection="c", keys=keys)
    scores, rankings = [scorer(run) for run in runs], [scorer.rankings(run) for run in runs]
    return explorer([topic_pages("c", "Collection", topics, scorer, scores, rankings)], **more)


def decoded(digits: str, width: int) -> list[int]:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    places = np.reshape([alphabet.index(digit) for digit in digits], (width, -1))
    return [int(number) for number in np.polyval(places, 64)]


# ---- rankings


def test_rankings_are_sorted_cut_at_the_depth_and_keep_unjudged_documents() -> None:
    scorer = Scorer(QRELS, PRIME)
    one = scorer.rankings(RUNS[0], first=3)
    assert one["T1"] == Ranking(("u", "b", "d"), {"b": 2, "a": 4}, {"b": 2, "d": 3, "a": 4})
    assert one["T2"] == Ranking(("x",), {"x": 1}, {"x": 1})
    assert "T3" not in one  # not answered


def test_ties_are_in_the_protocols_order() -> None:
    assert Scorer(QRELS, PRIME).rankings(RUNS[1])["T1"].docs == ("d", "b", "a")
    by_file = Protocol("file", ("AP",), ties="file")
    assert Scorer(QRELS, by_file).rankings(RUNS[1])["T1"].docs == ("a", "d", "b")


def test_documents_are_called_by_their_keys_and_the_first_of_each_stays() -> None:
    qrels = Qrels.from_dict("e", {"T1": {"k1": 2, "k2": 0}})
    protocol = Protocol("keyed", ("AP",), deduplicate=True, relevant_from=1)
    scorer = Scorer(qrels, protocol, keys={"f1": "k1", "f2": "k2", "f3": "k1"})
    run = Run.from_dict("r", {"T1": {"f2": 9, "f3": 8, "f1": 7, "other": 6}})
    assert scorer.rankings(run)["T1"] == Ranking(("k2", "k1", "other"), {"k1": 2}, {"k2": 1, "k1": 2})
    assert (scorer.key("f3"), scorer.key("other")) == ("k1", "other")
    assert Scorer(qrels, Protocol("plain", ("AP",)), keys={"f1": "k1"}).key("f1") == "f1"


def test_a_run_without_a_judged_topic_is_an_error() -> None:
    with pytest.raises(HarnessError, match="run r: none of its topics"):
        Scorer(QRELS, PRIME).rankings(Run.from_dict("r", {"Z": {"a": 1}}))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), min_size=1),
    st.sampled_from([1, 3, 1000]),
    st.booleans(),
)
def test_precision_can_be_read_off_the_ranking(
    results: dict[str, float], grades: dict[str, int], depth: int, prime: bool
) -> None:
    protocol = Protocol("p", ("P@2",), depth=depth, prime=prime, relevant_from=2)
    scorer = Scorer(Qrels.from_dict("e", {"T": grades}), protocol)
    run = Run.from_dict("r", {"T": results})
    ranking = scorer.rankings(run)["T"]
    first = list(ranking.judged)[:2] if prime else ranking.docs[:2]
    assert scorer(run).mean("P@2") == sum(grades.get(doc, 0) >= 2 for doc in first) / 2
    assert len(ranking.docs) == min(depth, len(results))
    for ranks in (ranking.ranks, ranking.judged):
        assert all(ranking.docs[rank - 1] == doc for doc, rank in ranks.items())
    assert set(ranking.ranks) == {doc for doc in ranking.docs if grades.get(doc, 0) >= 2}


# ---- pages


def test_a_page_has_relevant_documents_first_and_all_that_some_run_shows() -> None:
    page = block().collections[0].topics[0]
    assert page.docs[: page.relevant] == ("a", "b")
    assert set(page.docs) == {"a", "b", "c", "d", "u", "v"} - {"c"}  # c stands beyond the depth
    assert page.grades[:2] == (3, 2)
    assert dict(zip(page.docs, page.grades, strict=True))["u"] is None
    assert page.judged == ((3, 1), (2, 1), (1, 1), (0, 1))
    assert [[page.docs[i] for i in first] for first in page.firsts] == [["u", "b", "d", "a", "v"], ["d", "b", "a"]]
    assert page.ranks == ((4, 2), (3, 2))
    assert [[(page.docs[i], rank) for i, rank in first] for first in page.judged_firsts] == [
        [("b", 2), ("d", 3), ("a", 4)],
        [("d", 1), ("b", 2), ("a", 3)],
    ]


def test_judged_documents_are_listed_apart_only_where_unjudged_ones_are_removed() -> None:
    pages = block().collections[0].topics
    assert pages[1].judged_firsts == ()
    assert block(protocol=Protocol("p", ("AP",), relevant_from=2)).collections[0].topics[0].judged_firsts == ()


def test_topics_without_text_or_results_have_pages_too() -> None:
    page = block().collections[0].topics[2]
    assert (page.id, page.title, page.relevant, page.docs) == ("T3", "", 0, ("y",))
    assert page.firsts == ((), (0,))


@pytest.mark.parametrize(
    ("baseline", "pair"),
    [("", ("one", "two")), ("one", ("two", "one")), ("two", ("one", "two")), ("?", ("one", "two"))],
)
def test_the_best_run_is_compared_with_the_baseline_at_first(baseline: str, pair: tuple[str, str]) -> None:
    assert block(baseline=baseline).pair == pair


def test_a_single_run_is_compared_with_nothing() -> None:
    assert block(runs=RUNS[:1]).pair == ("one", "")


def test_texts_of_documents_are_looked_up_in_one_pass_and_by_key() -> None:
    read: list[str] = []

    def corpus() -> Any:  # noqa: ANN401 - a generator of documents
        for name in "abcdzuv":
            read.append(name)
            yield Document(f"f-{name}", f"title {name}", "x" * 5000)

    found = block(corpus=corpus(), key=lambda doc: doc.removeprefix("f-")).documents
    assert read == list("abcdzuv")
    assert set(found) == set("abduv")
    assert found["a"][0] == "title a"
    assert len(found["a"][1]) == builder.LONGEST_TEXT + 2


def test_relevant_documents_come_first_where_not_all_texts_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MOST_TEXT", 25)
    corpus = [Document(name, "", "x" * 10) for name in "uvdcba"]
    assert set(block(corpus=corpus).documents) == {"a", "b"}


def test_formulas_as_documents_get_delimiters() -> None:
    corpus = [Document("a", "", "x^2"), Document("b", "", "$y$")]
    assert block(corpus=corpus, bare=True).documents == {"a": ("", "$x^2$"), "b": ("", "$y$")}


# ---- JSON


def test_the_json_says_what_the_block_says() -> None:
    explored = block(corpus=[Document("a", "A $y$", "text")])
    data = json.loads(explorer_json(explored))
    (collection,) = data["collections"]
    (pages,) = explored.collections
    assert (collection["name"], collection["runs"]) == ("c", ["one", "two"])
    assert collection["measures"] == [["P@2", "P′@2"], ["AP", "MAP′"]]
    for topic, page in zip(collection["topics"], pages.topics, strict=True):
        assert topic["id"] == page.id
        assert topic["docs"] == list(page.docs)
        places = decoded(topic["grades"], 1)
        assert [topic["judged"][p][0] if p < len(topic["judged"]) else None for p in places] == list(page.grades)
        assert [decoded(row, collection["width"]) for row in topic["firsts"]] == [list(row) for row in page.firsts]
        assert [decoded(row, collection["width"]) for row in topic["ranks"]] == [list(row) for row in page.ranks]
        for row, values in zip(topic["values"], page.values, strict=True):
            assert row == [None if math.isnan(v) else round(v * 100_000) for v in values]
    assert collection["topics"][0]["title"] == ["Title with ", 0]
    latex, display, tree = data["formulas"][0]
    assert (latex, display) == ("x^2", 0)
    assert [data["kinds"][tree[0]], data["kinds"][tree[1][0]]] == [["math"], ["msup"]]
    assert data["documents"] == {"a": [["A ", 1], ["text"]]}


def worded(*texts: tuple[str, str], placeholder: str = "QZ") -> Explorer:
    """One topic in one version, whose last step is shown as it is written."""
    made = block()
    (pages,) = made.collections
    steps = (
        TransformationStep("Original", "fa", "rtl"),
        TransformationStep("Changed"),
        TransformationStep("As written", "fa", "rtl", literal=True),
    )
    topic = replace(pages.topics[0], wordings=(Wording(texts, (("kept", "1 of 2"),)),))
    version = TopicVersion("one", steps, ("two",), placeholder)
    return replace(made, collections=(replace(pages, topics=(topic,), versions=(version,)),))


def test_versions_name_their_texts_by_place_and_each_text_stands_there_once() -> None:
    same = ("A $x$", "b")
    data = json.loads(explorer_json(worded(same, same, ("A QZ1, QZ12 qz1 $y$", "b"))))
    (collection,) = data["collections"]
    (version,) = collection["versions"]
    assert (version["name"], version["runs"]) == ("one", ["two"])
    assert version["steps"][0] == {"label": "Original", "language": "fa", "direction": "rtl"}
    (wording,) = collection["topics"][0]["wordings"]
    assert wording["facts"] == [["kept", "1 of 2"]]
    first, second, third = wording["texts"]
    assert first == second != third
    assert len(data["texts"]) == 2
    title, body = data["texts"][first]
    assert (title[0], data["formulas"][title[1]][0], body) == ("A ", "x", ["b"])
    # As written: placeholders and formulas, delimiters and all, are read from the left; another spelling is text.
    assert data["texts"][third] == [["A ", ["QZ1"], ", ", ["QZ12"], " qz1 ", ["$y$"]], ["b"]]


def test_without_placeholders_only_formulas_are_set_apart() -> None:
    data = json.loads(explorer_json(worded(("", ""), ("", ""), (r"QZ1 \(z\)", "$5"), placeholder="")))
    assert data["texts"][-1] == [["QZ1 ", [r"\(z\)"]], ["$5"]]


@settings(max_examples=50)
@given(st.text(st.sampled_from("$\\()QZ12 x</script>\u202e\u0641&"), max_size=40))
def test_what_is_written_is_shown_whole(text: str) -> None:
    made = explorer_json(worded(("", ""), ("", ""), (text, text)))
    for shown in json.loads(made)["texts"][-1]:
        assert "".join(part if isinstance(part, str) else part[0] for part in shown) == visible(text)


def test_topics_that_a_protocol_leaves_out_have_no_value() -> None:
    protocol = Protocol("p", ("AP",), relevant_from=2, no_relevant="skip", topics="answered")
    topics = json.loads(explorer_json(block(protocol=protocol)))["collections"][0]["topics"]
    assert topics[1]["values"] == [[100_000], [None]]
    assert topics[2]["values"] == [[None], [None]]


def test_plain_numbers_as_ids_are_written_as_numbers_and_others_as_they_are() -> None:
    def written(*docs: str) -> tuple[object, list[str]]:
        qrels = Qrels.from_dict("e", {"T1": dict.fromkeys(docs, 2)})
        data = json.loads(explorer_json(block(qrels, runs=(Run.from_dict("r", {"T1": dict.fromkeys(docs, 1.0)}),))))
        found = data["collections"][0]["topics"][0]["docs"]
        return found, sorted(map(str, decoded(found, 4))) if isinstance(found, str) else found

    assert written("1", "64", "9999999") == ("AAmAAJABZBA_", ["1", "64", "9999999"])
    for other in ("007", "0", "12345678", "a1", "１"):
        assert written("1", other)[0] == sorted(("1", other))


def test_many_grades_and_long_rankings_have_room() -> None:
    qrels = Qrels.from_dict("e", {"T1": {f"d{n}": n / 7 for n in range(70)}})
    run = Run.from_dict("r", {"T1": {**{f"u{n}": 9000.0 - n for n in range(4200)}, "d69": 0.5}})
    protocol = Protocol("p", ("AP",), depth=None, relevant_from=9.8)
    (collection,) = json.loads(explorer_json(block(qrels, protocol, (run,))))["collections"]
    (topic,) = collection["topics"]
    assert decoded(topic["ranks"][0], collection["width"])[0] == 4201
    places = decoded(topic["grades"], len(topic["grades"]) // len(topic["docs"]))
    assert places[0] == 0
    assert places[-1] == len(topic["judged"]) == 70


HOSTILE = "</script><script>alert(1)</script>&amp;\u2028\u202e<!--"


def hostile(text: str = HOSTILE) -> Explorer:
    page = TopicPage(
        text,
        text,
        f"${text}$ {text}",
        (text,),
        ((text, text),),
        (text,),
        (1.0,),
        1,
        ((1.0, 1),),
        ((0.5,),),
        ((0,),),
        ((1,),),
    )
    pages = TopicPages(text, text, text, (("AP", text),), (text,), 1.0, (page,))
    return Explorer("explorer", (pages,), (text, ""), (), {text: (text, text)})


def test_formats_that_are_only_read_say_where_topics_are_looked_into() -> None:
    report = Report("T", "H", (Section("Per-topic results", (replace(hostile(), tables=()),)),))
    assert render_markdown(report).endswith(
        "## Per-topic results\n\nThe report's page, index.html, shows single topics and runs.\n"
    )
    assert "report's page, index.html" in render_latex(report)


def test_no_text_ends_the_script_element() -> None:
    page = render_html(Report("T", "H", (Section("S", (hostile(),)),)))
    assert page.count("<script") == 3
    assert page.count("</script>") == 3
    shown = HOSTILE.replace("\u2028", "[U+2028]").replace("\u202e", "[U+202E]")
    assert json.loads(explored(page))["collections"][0]["name"] == shown


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=40))
def test_any_text_can_be_written(text: str) -> None:
    json.loads(explorer_json(hostile(text)))


# ---- in a report


def values(name: str = "topics-c") -> Table:
    return Table(
        name, "Values by topic", (Column("topic"), Column("one", kind="number")), ((Cell("T1"), Cell(".5", 0.5)),)
    )


def test_formats_that_are_only_read_show_the_tables_and_the_page_the_explorer() -> None:
    report = Report("T", "H", (Section("S", (values("before"), block(tables=[values()]), values("after"))),))
    assert report.labels() == {"before": "Table 1", "topics-c": "Table 2", "after": "Table 3"}
    assert set(tables_csv(report)) == {"before.csv", "topics-c.csv", "after.csv"}
    assert "Values by topic" in render_markdown(report)
    assert "Values by topic" in render_latex(report)
    assert [b["type"] for b in json.loads(render_json(report))["sections"][0]["blocks"]] == [
        "table",
        "explorer",
        "table",
    ]
    page = render_html(report)
    assert 'id="topics-c"' not in page
    assert re.search(r"<p class=\"still\">[^<]*Table 2 \(tables/topics-c\.csv\)", page)
    assert "<noscript>" in page


def test_pages_without_an_explorer_have_nothing_of_it() -> None:
    page = render_html(Report("T", "H", (Section("S", (values(),)),)))
    assert "explorer" not in page
    assert page.count("<script") == 1


def test_a_report_has_one_explorer_and_distinct_ids() -> None:
    with pytest.raises(HarnessError, match="two explorers"):
        Report("T", "H", (Section("S", (block(), Explorer("other", (), ("", "")))),))
    with pytest.raises(HarnessError, match="two blocks have the id 'topics-c'"):
        Report("T", "H", (Section("S", (block(tables=[values()]), Figure("f", "", "", values()))),))
    with pytest.raises(HarnessError, match="explorer id"):
        Explorer("no name", (), ("", ""))


@pytest.mark.usefixtures("at_once")
def test_who_waits_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    explorer_json(block())
    assert "pages of topics: " in capsys.readouterr().err
