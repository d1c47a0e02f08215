"""Texts and formulas of topics and pages against the files, which `formulas_in_files` reads a second time."""

from __future__ import annotations

import html
import re
from pathlib import Path

import formulas_in_files as texts
import pytest

from harness.collections.load import load_collection
from harness.data.topics import Topics

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]
PAGE = Path(__file__).parents[2] / "bench/results/formulas-in-files.md"
_ELEMENT = re.compile(r"</?(?:span|p|a|em|strong|ol|ul|li|blockquote|h[1-6]|[bh]r)\b[^<>]*>")


def topics_of(name: str) -> tuple[Topics, list[str]]:
    """Returns the topics of a collection, and titles and questions of its file in turn."""
    topics, fields = load_collection(name).topics(), texts.fields(name)
    assert len(fields) == 2 * len(topics)
    return topics, fields


@pytest.mark.parametrize("name", [name for name in texts.YEARS if name.endswith("task1")])
def test_each_container_of_a_topic_is_a_formula(name: str) -> None:
    topics, fields = topics_of(name)
    for topic, title, body in zip(topics, fields[::2], fields[1::2], strict=True):
        wanted = [texts.packed(latex) for field in (title, body) for latex in texts.contents(field)]
        assert [texts.packed(formula.latex) for formula in topic.formulas] == wanted, topic.id


@pytest.mark.parametrize("name", texts.YEARS)
def test_topics_hold_all_words_of_their_file(name: str) -> None:
    topics, fields = topics_of(name)
    added = 0
    for topic, title, body in zip(topics, fields[::2], fields[1::2], strict=True):
        for text, field in ((topic.title, title), (topic.body, body)):
            wanted = html.unescape(_ELEMENT.sub(_blank, field))
            assert text.replace("$", "").split() == wanted.replace("$", "").split(), topic.id
            added += text.count("$") - wanted.count("$")
    # A formula that lacks its closing delimiter gets it.
    cut = topics.remarks.get("formulas without their closing delimiter", 0)
    assert cut <= added <= 2 * cut


def _blank(tag: re.Match[str]) -> str:
    return "" if re.match(r"</?(?:span|a|em|strong)\b", tag[0]) else " "


def test_formulas_asked_for_are_those_of_their_topics() -> None:
    others = []
    for name in (name for name in texts.YEARS if name.endswith("task2")):
        topics, fields = topics_of(name)
        for topic, title, body in zip(topics, fields[::2], fields[1::2], strict=True):
            (asked,) = topic.formulas
            found = [texts.packed(latex) for field in (title, body) for latex in texts.contents(field)]
            others += [] if texts.packed(asked.latex) in found else [topic.id]
    # Another sign for aleph, no backslash, and a formula that is cut short in the question only.
    assert others == ["B.231", "B.271", "B.394"]


@pytest.mark.heavy
def test_the_table_of_formulas_read_and_lost() -> None:
    rows = list(texts.rows())
    assert texts.markdown(rows) in PAGE.read_text(encoding="utf-8")
    assert {row[-1] for row in rows if not str(row[0]).startswith("crossmath")} == {0}
