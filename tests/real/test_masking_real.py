"""Masking on the topics of CrossMath: there and back, and the formulas that the organisers of ARQMath marked."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.formulas.text.delimiters import formula_spans
from harness.formulas.text.masking import mask_formulas, unmask_formulas

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]

LANGUAGES = ("ces-paper", "ces", "eng", "hin", "hrv", "npi", "pes", "spa")
# Topics in which the organisers' marks and the dollars part, with both counts. Markup of these was damaged when `<` in
# a formula was taken for a tag (its end and the prose after it are missing or within the formula), or the dollars are.
DAMAGED = {"A.226": (11, 10), "A.243": (11, 10), "A.258": (13, 12), "A.276": (7, 6), "A.281": (14, 13)}
DAMAGED |= {"A.320": (15, 16), "A.332": (47, 48), "A.335": (7, 5), "A.394": (22, 12)}
# Dollars of the English topics that are left as text; an opening `$$` whose end is missing counts two.
UNPAIRED = {"A.226": 2, "A.243": 1, "A.258": 1, "A.276": 1, "A.281": 1, "A.332": 1, "A.335": 2}


def formulas(topic: Topic) -> list[str]:
    """The masked formulas of a topic as the organisers write them: environments whole, others without delimiters."""
    found = []
    for text in (topic.title, topic.body):
        masked = mask_formulas(text).formulas
        assert len(masked) == len(formula_spans(text))
        for whole, span in zip(masked, formula_spans(text), strict=True):
            latex = whole if span.kind == "environment" else span.latex
            found.append("".join(latex.replace('""', '"').split()))  # one file doubles quotation marks
    return found


def dollars(text: str) -> int:
    """Those that are not escaped."""
    return re.sub(r"\\.", "", text, flags=re.DOTALL).count("$")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_topic_comes_back_as_it_was(language: str) -> None:
    topics = load_collection(f"crossmath-{language}").topics()
    masked = {(topic.id, text): mask_formulas(text) for topic in topics for text in (topic.title, topic.body)}
    assert len(topics) == 298
    unpaired: Counter[str] = Counter()
    for (topic, text), there in masked.items():
        unpaired[topic] += dollars(there.text)
        for made in (there, mask_formulas(text, blanks=True)):
            back, found = unmask_formulas(made.text, made)
            assert back == text
            assert found.intact
    assert max(unpaired.values()) <= 3
    if language == "eng":
        assert +unpaired == UNPAIRED


def test_the_formulas_are_those_that_the_organisers_marked() -> None:
    english = load_collection("crossmath-eng").topics().by_id()
    parted: dict[str, tuple[int, int]] = {}
    same = 0
    for year in (1, 2, 3):
        for topic in load_collection(f"arqmath-{year}-task1").topics():
            ours = formulas(english[topic.id])
            if len(ours) != len(topic.formulas):
                parted[topic.id] = (len(topic.formulas), len(ours))
                continue
            assert Counter(ours) == Counter("".join(formula.latex.split()) for formula in topic.formulas), topic.id
            same += len(ours)
    assert parted == DAMAGED
    assert same == 2763
